"""Decisions about users.

scram  decides AlterUserScramCredentials and answers DescribeUserScramCredentials.
"""
