"""What goes wrong in a run: schedules drawn from a seed, scenes, their injection, their shrinking.

hardware       Faults of disks and of the store that lie, rot or hang
injector       Makes the faults of a schedule happen in a world, and undoes them
log_scenes     Scenes of a cluster about its logs
quorum_scenes  Scenes of a quorum
scenes         Scenes of a cluster
schedule       Fault schedules
settings       What machines and the store of a world do while faults last
shrink         Shortens a schedule that makes a run fail, as long as it still does (delta debugging, Zeller and
"""
