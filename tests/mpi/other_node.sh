#!/usr/bin/env bash
# What Open MPI takes for ssh: HOST COMMAND... runs the command on this machine under another host name, so that its
# ranks are on a node of their own.
host=$1
shift
exec unshare --uts bash -c "hostname '$host' && $*"
