#!/bin/busybox sh
# Stage 1, from the initrd: a root that looks like the host's and can be written.
# The host's files are the lower layer of an overlay; its upper layer is memory.

/bin/busybox --install -s /bin
export PATH=/bin
. /job/settings

die() {
    echo "guest: $*" >/dev/kmsg
    poweroff -f
}

mkdir -p /proc /sys /dev /lower /memory /root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev

for module in /modules/*.ko; do
    insmod "$module" || die "cannot insert $module"
done

mount -t 9p -o "$root_options" root /lower || die "cannot mount the host's root"
mount -t tmpfs -o mode=755 memory /memory
mkdir /memory/upper /memory/work
layers=lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work
mount -t overlay -o "$layers" root /root || die "cannot mount the overlay"

# /run must not show the host's sockets, locks and process numbers.
mount -t tmpfs -o mode=755 run /root/run || die "the host has no /run"
mkdir /root/run/zcopy-guest
cp /job/* /bin/busybox /root/run/zcopy-guest/
for folder in proc sys dev; do
    mount --move "/$folder" "/root/$folder" || die "the host has no /$folder"
done
exec switch_root /root /run/zcopy-guest/busybox sh /run/zcopy-guest/stage2.sh
