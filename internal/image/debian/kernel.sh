# Fetches the package that a kernel's metapackage stands for. It runs outside the tree, with
# the apt configuration that mmdebstrap made for it; apt checks the signature.
set -eu
root=$1
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
package=$(apt-cache depends "$RIGS_KERNEL" | sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
if [ -z "$package" ]; then
	echo "E: the archive has no package $RIGS_KERNEL" >&2
	exit 1
fi
mkdir "$root/kernel"
cd "$root/kernel"
apt-get -o APT::Sandbox::User=root download "$package"
