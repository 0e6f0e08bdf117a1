"""Decisions about users.

acls   decides CreateAcls and DeleteAcls, and answers DescribeAcls.
scram  decides AlterUserScramCredentials and answers DescribeUserScramCredentials.
"""
