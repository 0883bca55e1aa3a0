# Makes a tree of Debian packages into an image. mmdebstrap runs it with the tree
# as $1, outside of it; in unshare mode "root" is a user namespace's.
set -eu
root=$1

chroot "$root" useradd --uid 1000 --user-group --create-home --home-dir /home/rig --shell /bin/bash --comment "Rig" rig
if [ -d "$root/etc/sudoers.d" ]; then
	printf 'rig ALL=(ALL:ALL) NOPASSWD: ALL\n' >"$root/etc/sudoers.d/rig"
	chmod 0440 "$root/etc/sudoers.d/rig"
fi
printf 'LANG=C.UTF-8\n' >"$root/etc/default/locale"

# No service manager runs in a rig, so a package must not try to start its service.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 0755 "$root/usr/sbin/policy-rc.d"
printf 'Acquire::Languages "none";\n' >"$root/etc/apt/apt.conf.d/90rig"

# How this host reaches its mirror is no business of the image.
rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap"

# The guest writes these. What is left are traces of the build that differ each time.
rm -f "$root/etc/hostname" "$root/etc/resolv.conf" "$root"/etc/*- "$root/var/cache/ldconfig/aux-cache"
: >"$root/etc/machine-id"
rm -f "$root"/var/log/*.log "$root"/var/log/apt/* "$root"/var/cache/debconf/*-old "$root"/var/lib/dpkg/*-old
rm -f "$root"/etc/ssh/ssh_host_*
