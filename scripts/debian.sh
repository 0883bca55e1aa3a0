# Sourced by scripts that make a Debian tree: where this host gets packages from.
# shellcheck shell=bash

# debian_sources SUITE prints sources.list lines for a release of Debian, from
# the mirror that this host uses. On a host that is no Debian it prints nothing:
# mmdebstrap then takes its own default.
debian_sources() {
	local keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror
	# shellcheck disable=SC2016 # the fields are apt's
	mirror=$(apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk '$2 == "main" && $3 ~ /\/debian\/?$/ { print $3; exit }')
	[ -z "$mirror" ] || printf 'deb [signed-by=%s] %s %s main\n' $keyring "$mirror" "$1"
}

# apt_transport prints the options of this host's apt that say how to reach a
# mirror, as lines of an apt.conf.
apt_transport() {
	apt-config dump --format '%F "%v";%n' Acquire |
		grep -iE '^Acquire::(https?::|Check-Valid-Until|Check-Date|Retries|ForceIPv)' | grep -v '""' || true
}

# debian_tree SUITE VARIANT PACKAGES OUTPUT makes a tree with mmdebstrap.
debian_tree() {
	local options=() line mode=unshare
	[ "$(id -u)" = 0 ] && mode=root
	while IFS= read -r line; do [ -z "$line" ] || options+=("--aptopt=${line%;}"); done < <(apt_transport)
	local sources
	sources=$(debian_sources "$1")
	mmdebstrap --quiet --dpkgopt=force-unsafe-io --mode=$mode --variant="$2" --include="$3" '--aptopt=Acquire::Languages "none"' "${options[@]}" "$1" "$4" ${sources:+-} <<<"$sources"
}
