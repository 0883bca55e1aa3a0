# Keeps manuals, translations and most documentation out. It runs once the essential
# packages are there: given to mmdebstrap as options, the same would make it filter
# each of these packages through a program of its own, which takes 40 s.
set -eu
root=$1
cat >"$root/etc/dpkg/dpkg.cfg.d/rig" <<END
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/lintian/*
END
for dir in man info locale lintian; do
	if [ -d "$root/usr/share/$dir" ]; then
		find "$root/usr/share/$dir" -mindepth 1 -delete
	fi
done
find "$root/usr/share/doc" -mindepth 2 ! -name copyright -delete
