"""The `Disk` port, the operating system's files behind it, and what protects a directory.

directory_lock     The `.lock` file of a log directory
durable_directory  Makes a directory whose name, and those of the parents made with it, survive a crash
open_file          One open file of `OsDisk`: the order of its calls
os_disk            `Disk` on the operating system's files
port               The `Disk` port
run_to_completion  For calls that change several things on the disk
sending            Sending a slice of a file to a transport
threads            The threads of a disk, and the limit on what may wait for them
"""
