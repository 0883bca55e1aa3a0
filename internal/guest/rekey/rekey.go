//go:build linux

package rekey

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

const (
	minEntropy = 64
	maxEntropy = 4096
	maxSecret  = 4096
)

var (
	firstTime = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Check says what is wrong with a request.
func Check(r guestapi.Rekey) error {
	switch {
	case len(r.Entropy) < minEntropy || len(r.Entropy) > maxEntropy:
		return rig.FieldErrorf("entropy", "cannot rekey: %d bytes of entropy: %d to %d are needed", len(r.Entropy), minEntropy, maxEntropy)
	case r.Time.Before(firstTime) || r.Time.After(lastTime):
		return rig.FieldErrorf("time", "cannot rekey: %s cannot be the time", r.Time)
	case !isHostName(r.HostName):
		return rig.FieldErrorf("hostName", "cannot rekey: %.80q is no host name", r.HostName)
	case !isMachineID(r.MachineID):
		return rig.FieldErrorf("machineId", "cannot rekey: a machine id is 32 hex digits")
	case r.Secret == "" || len(r.Secret) > maxSecret:
		return rig.FieldErrorf("secret", "cannot rekey: a secret of 1 to %d bytes is needed", maxSecret)
	}
	_, err := parseNetwork(r.Network)
	return err
}

// isHostName says whether s is one label of a domain name, in lower case.
func isHostName(s string) bool {
	for _, b := range []byte(s) {
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '-' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-'
}

func isMachineID(s string) bool {
	for _, b := range []byte(s) {
		if (b < 'a' || b > 'f') && (b < '0' || b > '9') {
			return false
		}
	}
	return len(s) == 32
}

type network struct {
	addr    netip.Prefix
	gateway netip.Addr
	mtu     int
}

func parseNetwork(n guestapi.Network) (network, error) {
	addr, err := netip.ParsePrefix(n.Address)
	if err != nil || !addr.Addr().Is4() {
		return network{}, rig.FieldErrorf("network.address", "cannot rekey: %.64q is not an IPv4 address with a prefix length", n.Address)
	}
	gw, err := netip.ParseAddr(n.Gateway)
	if err != nil || !addr.Contains(gw) {
		return network{}, rig.FieldErrorf("network.gateway", "cannot rekey: %.64q is not an address in %s", n.Gateway, addr.Masked())
	}
	if n.MTU < 576 || n.MTU > 65535 {
		return network{}, rig.FieldErrorf("network.mtu", "cannot rekey: an MTU of %d: 576 to 65535 can be", n.MTU)
	}
	return network{addr, gw, n.MTU}, nil
}

// Apply does what a checked request asks for; the secret is the caller's to
// keep.
func Apply(r guestapi.Rekey) (guestapi.Rekeyed, error) {
	net, err := parseNetwork(r.Network)
	if err != nil {
		return guestapi.Rekeyed{}, err
	}
	etc := Etc{Root: "/"}
	steps := []struct {
		what string
		do   func() error
	}{
		{"reseed the random number generator", func() error { return reseed(r.Entropy) }},
		{"set the clock", func() error { return setClock(r.Time) }},
		{"set the host name", func() error { return setHostName(etc, r.HostName) }},
		{"set the machine id", func() error { return etc.SetMachineID(r.MachineID) }},
		{"configure the network", func() error { return configure(net) }},
		{"set the resolver", func() error { return etc.SetResolver(net.gateway.String()) }},
		{"remove SSH host keys", etc.RemoveHostKeys},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return guestapi.Rekeyed{}, rig.Errorf(rig.CodeInternal, "cannot %s: %w", s.what, err)
		}
	}
	return readBack(etc)
}

// readBack says what the machine is now. The steps before it have succeeded.
func readBack(etc Etc) (guestapi.Rekeyed, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return guestapi.Rekeyed{}, fmt.Errorf("cannot read the host name back: %w", err)
	}
	id, err := os.ReadFile(etc.path("machine-id"))
	if err != nil {
		return guestapi.Rekeyed{}, fmt.Errorf("cannot read the machine id back: %w", err)
	}
	return guestapi.Rekeyed{
		HostName:  unix.ByteSliceToString(u.Nodename[:]),
		MachineID: strings.TrimSpace(string(id)),
		Time:      time.Now().UTC(),
		Reseeded:  true,
	}, nil
}

// reseed credits entropy to the kernel's generator and makes it reseed at once:
// without the second step clones would go on with the same key for up to a
// minute.
func reseed(entropy []byte) error {
	f, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// struct rand_pool_info: bits of entropy, bytes in the buffer, the buffer.
	info := make([]byte, 8, 8+len(entropy))
	binary.NativeEndian.PutUint32(info, uint32(8*len(entropy)))
	binary.NativeEndian.PutUint32(info[4:], uint32(len(entropy)))
	info = append(info, entropy...)
	if err := ioctlBytes(f.Fd(), unix.RNDADDENTROPY, info); err != nil {
		return fmt.Errorf("RNDADDENTROPY: %w", err)
	}
	if err := unix.IoctlSetInt(int(f.Fd()), unix.RNDRESEEDCRNG, 0); err != nil {
		return fmt.Errorf("RNDRESEEDCRNG: %w", err)
	}
	clear(info)
	return nil
}

func setClock(t time.Time) error {
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return err
	}
	return unix.ClockSettime(unix.CLOCK_REALTIME, &ts)
}

func setHostName(etc Etc, name string) error {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return err
	}
	return etc.SetHostName(name)
}
