# shellcheck shell=bash
# sshd_settings ADDRESS AUTHORIZED_KEYS "NAME=VALUE...": the settings of an sshd of one test, which has its host key in
# $ssh_folder and sets these variables for whoever logs in, beside those of sanitizers. Sourced by sshd.sh and hosts.sh.
sshd_settings() {
  cat <<TEXT
ListenAddress $1
HostKey $ssh_folder/host_key
AuthorizedKeysFile $2
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
MaxStartups 100
SetEnv $3 ASAN_OPTIONS=${ASAN_OPTIONS:-} LSAN_OPTIONS=${LSAN_OPTIONS:-} UBSAN_OPTIONS=${UBSAN_OPTIONS:-}
TEXT
}
