#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A whole Slurm on one host, from Debian's packages, as root and in one folder: controller, one
# slurmd a node, accounting in a private MariaDB. Sourced by run.sh:
#
#   lab_up FOLDER NODES ACCOUNTS    # org -> teams -> accounts a0 .., 8 GPUs a node
#   lab_parameters TEXT             # SchedulerParameters, in force at once
#   lab_down FOLDER
#
# Every daemon has its own munged (one that served several slurmds would take their credentials for
# replayed). GPUs are device files without a driver. Everything listens on 127.0.0.1 from port
# $LAB_PORT (17000) on.

lab_needs() {
  local missing=() tool
  [ "$(id -u)" = 0 ] || { echo "error: must run as root" >&2; return 1; }
  for tool in slurmctld slurmd slurmdbd sacctmgr sdiag munged mariadbd mariadb-install-db setpriv cc; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  [ -e /usr/include/slurm/slurm.h ] || missing+=(slurm/slurm.h)
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "error: missing ${missing[*]}; on Debian 12: apt-get install --no-install-recommends" \
    "slurmctld slurmd slurm-client slurmdbd slurm-wlm-mysql-plugin libslurm-dev munge" \
    "mariadb-server gcc" >&2
  return 1
}

lab_munge() { # name: a munge daemon of its own
  local home="$LAB/munge/$1"
  install -d -o munge -g munge -m 755 "$home"
  setpriv --reuid=munge --regid=munge --clear-groups munged --num-threads="${2:-1}" \
    --key-file="$LAB/munge/key" --socket="$home/socket" --pid-file="$home/pid" \
    --log-file="$home/log" --seed-file="$home/seed"
}

lab_wait() { # seconds command...: until it succeeds
  local i
  for ((i = $1 * 5; i > 0; --i)); do
    "${@:2}" >/dev/null 2>&1 && return 0
    sleep 0.2
  done
  echo "error: timed out: ${*:2}" >&2
  return 1
}

lab_config() { # name: slurm.conf of one daemon in $LAB/etc/name
  local home="$LAB/etc/$1"
  mkdir -p "$home"
  printf 'Include %s\nAuthInfo=socket=%s,cred_expire=5\nAccountingStoragePass=%s\nInclude %s\n' \
    "$LAB/etc/common.conf" "$LAB/munge/$1/socket" "$LAB/munge/$1/socket" "$LAB/etc/nodes.conf" \
    >"$home/slurm.conf"
  ln -sf "$LAB/etc/gres.conf" "$LAB/etc/topology.conf" "$LAB/etc/cgroup.conf" "$home/"
}

lab_files() { # nodes
  local i
  cat >"$LAB/etc/common.conf" <<CONF
ClusterName=lab
SlurmctldHost=localhost
SlurmctldPort=$LAB_PORT
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=$LAB/state
SlurmdSpoolDir=$LAB/spool/%n
SlurmctldPidFile=$LAB/run/slurmctld.pid
SlurmdPidFile=$LAB/run/slurmd.%n.pid
SlurmctldLogFile=$LAB/log/slurmctld.log
SlurmdLogFile=$LAB/log/slurmd.%n.log
DebugFlags=NO_CONF_HASH
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
MaxJobCount=100000
SlurmdTimeout=3600
SchedulerType=sched/backfill
Include $LAB/etc/parameters.conf
TopologyPlugin=topology/tree
PriorityType=priority/multifactor
PriorityDecayHalfLife=7-0
PriorityCalcPeriod=1
PriorityWeightFairshare=100000
PriorityWeightAge=1000
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$((LAB_PORT + 1))
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations
CONF
  echo "SchedulerParameters=sched_interval=5" >"$LAB/etc/parameters.conf"
  cat >"$LAB/etc/dbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$LAB/munge/ctld/socket
DbdHost=localhost
DbdPort=$((LAB_PORT + 1))
SlurmUser=root
PidFile=$LAB/run/slurmdbd.pid
LogFile=$LAB/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
CONF
  chmod 600 "$LAB/etc/dbd.conf"
  for ((i = 1; i <= $1; i += 16)); do
    echo "SwitchName=rack$(((i - 1) / 16)) Nodes=n[$i-$((i + 15 < $1 ? i + 15 : $1))]"
  done >"$LAB/etc/topology.conf"
  echo "SwitchName=spine Switches=rack[0-$((($1 - 1) / 16))]" >>"$LAB/etc/topology.conf"
  for ((i = 0; i < 8; ++i)); do mknod "$LAB/dev/nvidia$i" c 195 "$i"; done
  printf 'AutoDetect=off\nNodeName=n[1-%d] Name=gpu Type=h100 File=%s\n' "$1" \
    "$LAB/dev/nvidia[0-7]" >"$LAB/etc/gres.conf"
  printf 'CgroupAutomount=no\nConstrainDevices=no\n' >"$LAB/etc/cgroup.conf"
  for ((i = 1; i <= $1; ++i)); do
    echo "NodeName=n$i NodeHostname=n$i NodeAddr=127.0.0.1 Port=$((LAB_PORT + 100 + i))" \
      "CPUs=64 Boards=1 SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=1" \
      "RealMemory=512000 Gres=gpu:h100:8 State=UNKNOWN"
  done >"$LAB/etc/nodes.conf"
  echo "PartitionName=main Nodes=n[1-$1] Default=YES MaxTime=INFINITE State=UP" \
    "DefMemPerCPU=1000" >>"$LAB/etc/nodes.conf"
}

lab_accounts() { # accounts: ten of them in a team
  local i teams=$((($1 + 9) / 10)) names
  names=$(seq -s, -f 't%g' 0 $((teams - 1)))
  sacctmgr -i add cluster lab
  sacctmgr -i add account org
  sacctmgr -i add account "$names" parent=org
  for ((i = 0; i < teams; ++i)); do
    names=$(seq -s, -f 'a%g' $((i * 10)) $((i * 10 + 9 < $1 - 1 ? i * 10 + 9 : $1 - 1)))
    sacctmgr -i add account "$names" parent="t$i"
  done
  sacctmgr -i add user root account="$(seq -s, -f 'a%g' 0 $(($1 - 1)))"
}

lab_idle() { [ "$(sinfo -h -N -o %T | grep -c '^idle')" -ge "$1" ]; }

lab_up() { # folder nodes accounts
  local i
  LAB=$1
  LAB_PORT=${LAB_PORT:-17000}
  mkdir -p "$LAB"/{etc,log,run,state,spool,munge,dev,sql}
  chmod -R 755 "$LAB"
  head -c 64 /dev/urandom >"$LAB/munge/key"
  chmod 400 "$LAB/munge/key"
  chown -R munge:munge "$LAB/munge"
  chown mysql:mysql "$LAB/sql"
  lab_files "$2"
  lab_munge ctld 4
  lab_config ctld
  ln -sf "$LAB/etc/dbd.conf" "$LAB/etc/ctld/slurmdbd.conf"
  export SLURM_CONF=$LAB/etc/ctld/slurm.conf MYSQL_UNIX_PORT=$LAB/sql/socket
  mariadb-install-db --no-defaults --user=mysql --datadir="$LAB/sql/data" \
    --auth-root-authentication-method=socket --skip-test-db >"$LAB/log/sql.log" 2>&1
  mariadbd --no-defaults --user=mysql --datadir="$LAB/sql/data" --socket="$MYSQL_UNIX_PORT" \
    --pid-file="$LAB/sql/pid" --skip-networking --innodb-lock-wait-timeout=900 \
    >>"$LAB/log/sql.log" 2>&1 &
  lab_wait 60 mariadb --no-defaults -S "$MYSQL_UNIX_PORT" -e "create database slurm_acct_db" || return 1
  slurmdbd || return 1
  lab_wait 60 sacctmgr -n list cluster || return 1
  lab_accounts "$3" >"$LAB/log/accounts.log" 2>&1 || return 1
  slurmctld || return 1
  for ((i = 1; i <= $2; ++i)); do
    lab_munge "n$i"
    lab_config "n$i"
    mkdir -p "$LAB/spool/n$i"
    slurmd -N "n$i" -f "$LAB/etc/n$i/slurm.conf" || return 1
  done
  lab_wait 180 lab_idle "$2"
}

lab_parameters() {
  echo "SchedulerParameters=$1" >"$LAB/etc/parameters.conf"
  scontrol reconfigure
}

lab_gone() { # pids...: all of them have ended, reaped or not
  local pid
  for pid; do
    [ ! -e "/proc/$pid" ] || grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null || return 1
  done
}

lab_stop() { # pid files...: ends these processes
  local file pids=()
  for file; do
    [ ! -s "$file" ] || pids+=("$(tr -dc 0-9 <"$file")")
  done
  [ ${#pids[@]} -eq 0 ] && return 0
  kill "${pids[@]}" 2>/dev/null
  lab_wait 30 lab_gone "${pids[@]}" || kill -9 "${pids[@]}"
}

lab_down() { # folder
  LAB=$1
  if [ -s "$LAB/run/slurmctld.pid" ]; then
    timeout 20 scontrol update partition=main state=down >/dev/null 2>&1
    timeout 60 scancel --state=RUNNING --user=root >/dev/null 2>&1
    lab_wait 60 sh -c '[ -z "$(timeout 5 squeue -h -t R,CG)" ]'
  fi
  lab_stop "$LAB"/run/slurmd.*.pid "$LAB"/run/slurmctld.pid
  lab_stop "$LAB"/run/slurmdbd.pid
  lab_stop "$LAB"/sql/pid "$LAB"/munge/*/pid
  rm -rf "$LAB"
}
