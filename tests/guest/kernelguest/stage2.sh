# Stage 2, process 1 in the new root: drivers, the command, its exit code.
# Every program is busybox's, or the host's under its full path.

job=/run/zcopy-guest
. $job/settings

bb() {
    $job/busybox "$@"
}

# The file of a virtio-serial port; there is no udev to make names for us.
port() {
    for tries in 1 2 3 4 5 6 7 8 9 10; do
        for name in /sys/class/virtio-ports/*/name; do
            if [ "$(bb cat "$name" 2>/dev/null)" = "$1" ]; then
                name=${name%/name}
                echo "/dev/${name##*/}"
                return
            fi
        done
        bb sleep 0.2
    done
}

status() {
    echo "$*" >&3
}

# Report and wait for the host to switch us off: it does when it has read all.
finish() {
    bb sync
    status "$@"
    while :; do
        bb sleep 60
    done
}

share() { # TAG MODE FOLDER
    bb mkdir -p "$3"
    bb mount -t 9p -o "$2,$share_options" "$1" "$3" || finish "failed cannot mount $3"
}

load() { # MODULE ARGS…
    "$modprobe" "$@" || finish "failed cannot load $1"
}

# A pipe in between: a port can be opened once, a pipe as often as one likes,
# and programs do open /dev/stdout.
pipe() { # NAME
    bb mkfifo "$job/$1.pipe"
    $job/busybox cat "$job/$1.pipe" >"$(port "$1")" &
}

# The kernel queues what is written to a port and tells nobody when the host has
# it. The mark travels behind the last byte, and the host looks for it.
end_stream() { # NAME
    printf '\000%s\000' "$end_mark" >"$(port "$1")"
}

# End what the command left behind: the pipes end only with their last writer.
end_others() { # PID…
    for process in /proc/[0-9]*; do
        case " 1 $* " in
        *" ${process#/proc/} "*) ;;
        *) kill -KILL "${process#/proc/}" 2>/dev/null ;;
        esac
    done
}

exec 3>"$(port status)" </dev/null
status booted

bb hostname "$guest_name"
bb ip link set lo up
bb mkdir -p /dev/pts /dev/shm /lib/modules
bb mount -t devpts -o mode=620,ptmxmode=666 devpts /dev/pts
bb mount -t tmpfs -o mode=1777 shm /dev/shm
bb mount -t debugfs debugfs /sys/kernel/debug
bb mount -t tracefs tracefs /sys/kernel/tracing
bb mount -t cgroup2 cgroup2 /sys/fs/cgroup
for link in fd: stdin:/0 stdout:/1 stderr:/2; do
    bb ln -sfn "/proc/self/fd${link#*:}" "/dev/${link%:*}"
done
# Plain modprobe, the kernel's own calls of it too, finds this kernel's modules.
bb mount --bind "$modules_folder" /lib/modules || finish "failed no $modules_folder"

. $job/shares
. $job/modules

pipe stdout
stdout=$!
pipe stderr
stderr=$!
status ready
$job/busybox setsid $job/busybox sh $job/command 3>&- >$job/stdout.pipe 2>$job/stderr.pipe
code=$?
end_others $stdout $stderr
wait $stdout $stderr
end_stream stdout
end_stream stderr
finish "exit $code"
