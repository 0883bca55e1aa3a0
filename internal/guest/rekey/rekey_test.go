//go:build linux

package rekey

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
)

func good() guestapi.Rekey {
	return guestapi.Rekey{
		Entropy: bytes.Repeat([]byte{1}, 64), Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), HostName: "r-1",
		MachineID: strings.Repeat("0123456789abcdef", 2), Secret: "s",
		Network: guestapi.Network{Address: "10.0.0.2/24", Gateway: "10.0.0.1", MTU: 65520},
	}
}

func TestCheck(t *testing.T) {
	if err := Check(good()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		field string
		bad   func(*guestapi.Rekey)
	}{
		{"entropy", func(r *guestapi.Rekey) { r.Entropy = nil }},
		{"entropy", func(r *guestapi.Rekey) { r.Entropy = r.Entropy[:63] }},
		{"entropy", func(r *guestapi.Rekey) { r.Entropy = make([]byte, 5000) }},
		{"time", func(r *guestapi.Rekey) { r.Time = time.Time{} }},
		{"time", func(r *guestapi.Rekey) { r.Time = time.Unix(0, 0) }},
		{"time", func(r *guestapi.Rekey) { r.Time = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"hostName", func(r *guestapi.Rekey) { r.HostName = "" }},
		{"hostName", func(r *guestapi.Rekey) { r.HostName = "-x" }},
		{"hostName", func(r *guestapi.Rekey) { r.HostName = "x-" }},
		{"hostName", func(r *guestapi.Rekey) { r.HostName = "a.b" }},
		{"hostName", func(r *guestapi.Rekey) { r.HostName = "a\nb" }},
		{"hostName", func(r *guestapi.Rekey) { r.HostName = strings.Repeat("a", 64) }},
		{"machineId", func(r *guestapi.Rekey) { r.MachineID = strings.ToUpper(r.MachineID) }},
		{"machineId", func(r *guestapi.Rekey) { r.MachineID += "0" }},
		{"machineId", func(r *guestapi.Rekey) { r.MachineID = r.MachineID[1:] + "\n" }},
		{"secret", func(r *guestapi.Rekey) { r.Secret = "" }},
		{"secret", func(r *guestapi.Rekey) { r.Secret = strings.Repeat("s", 5000) }},
		{"network.address", func(r *guestapi.Rekey) { r.Network.Address = "10.0.0.2" }},
		{"network.address", func(r *guestapi.Rekey) { r.Network.Address = "fd00::2/64" }},
		{"network.gateway", func(r *guestapi.Rekey) { r.Network.Gateway = "10.0.1.1" }},
		{"network.gateway", func(r *guestapi.Rekey) { r.Network.Gateway = "fd00::1" }},
		{"network.mtu", func(r *guestapi.Rekey) { r.Network.MTU = 0 }},
		{"network.mtu", func(r *guestapi.Rekey) { r.Network.MTU = 65536 }},
	} {
		r := good()
		c.bad(&r)
		var p *rig.Problem
		if err := Check(r); !errors.As(err, &p) || p.Field != c.field || p.Code != rig.CodeInvalidRequest {
			t.Errorf("%+v: got %v, want an error about %s", r, err, c.field)
		}
	}
}

func TestHosts(t *testing.T) {
	const local = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	for _, c := range []struct{ old, want string }{
		{"", local + "127.0.1.1\tnew\n"},
		{local + "127.0.1.1\told\n", local + "127.0.1.1\tnew\n"},
		{local + " 127.0.1.1 old older\n10.0.0.9 mine", local + "10.0.0.9 mine\n127.0.1.1\tnew\n"},
		{"127.0.0.1 localhost me\n::1 localhost\n# 127.0.1.1 comment\n", "127.0.0.1 localhost me\n::1 localhost\n# 127.0.1.1 comment\n127.0.1.1\tnew\n"},
		{"127.0.1.10 other\n", "127.0.1.10 other\n" + local + "127.0.1.1\tnew\n"},
	} {
		if got := hosts(c.old, "new"); got != c.want {
			t.Errorf("%q:\ngot  %q\nwant %q", c.old, got, c.want)
		}
	}
}

func TestEtc(t *testing.T) {
	e := Etc{Root: t.TempDir()}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(e.Root, name))
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	for _, dir := range []string{"etc/ssh", "var/lib/dbus", "run"} {
		if err := os.MkdirAll(filepath.Join(e.Root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Links of the image that lead to services which do not run here.
	if err := os.Symlink("/run/systemd/resolve/stub-resolv.conf", e.path("resolv.conf")); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"etc/ssh/ssh_host_rsa_key", "etc/ssh/ssh_host_rsa_key.pub", "etc/ssh/sshd_config", "var/lib/dbus/machine-id"} {
		if err := os.WriteFile(filepath.Join(e.Root, f), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{strings.Repeat("1", 32), strings.Repeat("2", 32)} { // replaced although read-only
		for _, err := range []error{e.SetMachineID(id), e.SetHostName("name"), e.SetResolver("10.0.0.1"), e.RemoveHostKeys()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []string{"etc/machine-id", "var/lib/dbus/machine-id"} {
			if got := read(f); got != id+"\n" {
				t.Errorf("%s: %q", f, got)
			}
		}
	}
	fi, err := os.Stat(e.path("machine-id"))
	if err != nil || fi.Mode().Perm() != 0o444 {
		t.Errorf("machine-id: %v, %v", fi, err)
	}
	if got := read("etc/hostname"); got != "name\n" {
		t.Errorf("hostname: %q", got)
	}
	if got := read("etc/resolv.conf"); got != "nameserver 10.0.0.1\n" {
		t.Errorf("resolv.conf: %q", got)
	}
	left, err := filepath.Glob(e.path("ssh/*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "sshd_config" {
		t.Errorf("ssh: %v, %v", left, err)
	}
	all, err := filepath.Glob(e.path("*.rigs"))
	if err != nil || len(all) != 0 {
		t.Errorf("left behind: %v, %v", all, err)
	}
}
