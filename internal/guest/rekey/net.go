//go:build linux

package rekey

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// configure gives the machine's only NIC its address, MTU and default route.
func configure(n network) error {
	name, err := nic()
	if err != nil {
		return err
	}
	// There is no IPv6 behind the NIC: without it programs fall back at once.
	// A kernel without IPv6 has no such file.
	v6 := filepath.Join("/proc/sys/net/ipv6/conf", name, "disable_ipv6")
	if err := os.WriteFile(v6, []byte("1"), 0); err != nil && !os.IsNotExist(err) {
		return err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }() // nothing can be lost with it
	mask := ^uint32(0) << (32 - n.addr.Bits())
	steps := []struct {
		what string
		req  uint
		set  func(*unix.Ifreq) error
	}{
		{"MTU", unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(uint32(n.mtu)); return nil }},
		{"address", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(n.addr.Addr().AsSlice()) }},
		{"netmask", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(binary.BigEndian.AppendUint32(nil, mask)) }},
		{"state", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	}
	for _, step := range steps {
		r, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		if err := step.set(r); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(s, step.req, r); err != nil {
			return fmt.Errorf("set the %s of %s: %w", step.what, name, err)
		}
	}
	if err := addDefaultRoute(s, n.gateway); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add a route through %s: %w", n.gateway, err)
	}
	return nil
}

// nic returns the name of the only interface that is a device.
func nic() (string, error) {
	found, err := filepath.Glob("/sys/class/net/*/device")
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("the machine has %d network devices, not 1", len(found))
	}
	return filepath.Base(filepath.Dir(found[0])), nil
}

// rtentry is struct rtentry of linux/route.h, which x/sys lacks.
type rtentry struct {
	_       uintptr
	dst     unix.RawSockaddrInet4
	gateway unix.RawSockaddrInet4
	genmask unix.RawSockaddrInet4
	flags   uint16
	_       int16
	_       uintptr
	_       uintptr
	_       int16
	_       uintptr // dev
	_       uintptr // mtu
	_       uintptr // window
	_       uint16
}

func addDefaultRoute(s int, gateway netip.Addr) error {
	r := rtentry{flags: unix.RTF_UP | unix.RTF_GATEWAY}
	r.dst.Family, r.genmask.Family, r.gateway.Family = unix.AF_INET, unix.AF_INET, unix.AF_INET
	r.gateway.Addr = gateway.As4()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCADDRT, uintptr(unsafe.Pointer(&r))); errno != 0 {
		return errno
	}
	return nil
}
