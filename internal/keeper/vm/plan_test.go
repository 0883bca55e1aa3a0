package vm

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

var update = flag.Bool("update", false, "write the golden files")

func plan(change func(*Plan)) Plan {
	p := Plan{
		Version: Version{7, 2, 22}, Accel: "tcg", MemoryMB: 512, VCPUs: 2, TSCKHz: 2096018, Surface: rig.Terminal,
		Kernel: "/k/vmlinux", Initrd: "/k/initrd", RootFS: "/i/rootfs", RootFSType: "erofs", Disk: "/d/disk.qcow2", Memory: Plain,
	}
	if change != nil {
		change(&p)
	}
	return p
}

// Every argument of every kind of machine is pinned.
func TestArgv(t *testing.T) {
	for name, p := range map[string]Plan{
		"cold":      plan(nil),
		"cold-kvm":  plan(func(p *Plan) { p.Accel, p.TSCKHz = "kvm", 0 }),
		"template":  plan(func(p *Plan) { p.Memory, p.MemoryFile = Shared, "/t/memory" }),
		"clone":     plan(func(p *Plan) { p.Memory, p.MemoryFile = Private, "/t/memory" }),
		"clone-8.2": plan(func(p *Plan) { p.Version, p.Memory, p.MemoryFile = Version{8, 2, 0}, Private, "/t/memory" }),
	} {
		t.Run(name, func(t *testing.T) {
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(strings.Join(Argv(p), "\n"), "\n-", "\n\n-") + "\n"
			file := filepath.Join("testdata", name+".argv")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("command line (-pinned +now):\n%s", d)
			}
		})
	}
}

// What must never be on a command line, whatever the plan.
func TestArgvOpensNothing(t *testing.T) {
	for _, m := range []Memory{Plain, Shared, Private} {
		argv := Argv(plan(func(p *Plan) { p.Memory, p.MemoryFile = m, "/t/memory" }))
		for _, a := range argv {
			for _, bad := range []string{"virtfs", "fsdev", "9p", "vhost", "user,", "tap,", "tcp:", "vnc", "gdb", "hostfwd", "pci-assign", "vfio", "usb"} {
				if strings.Contains(a, bad) {
					t.Errorf("%s memory: %q in %q", m, bad, a)
				}
			}
		}
		if !slices.Contains(argv, "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny") {
			t.Error("no sandbox")
		}
		root := argv[slices.IndexFunc(argv, func(a string) bool { return strings.Contains(a, "node-name=root") })]
		if !strings.Contains(root, "read-only=on") {
			t.Errorf("the image can be written: %s", root)
		}
	}
}

// A path cannot add options.
func TestArgvEscapes(t *testing.T) {
	argv := Argv(plan(func(p *Plan) { p.RootFS = "/a,read-only=off" }))
	if !slices.ContainsFunc(argv, func(a string) bool { return strings.HasSuffix(a, "filename=/a,,read-only=off") }) {
		t.Errorf("not escaped: %q", argv)
	}
}

func TestPlanIsChecked(t *testing.T) {
	for name, change := range map[string]func(*Plan){
		"old QEMU":       func(p *Plan) { p.Version = Version{7, 1, 9} },
		"other surface":  func(p *Plan) { p.Surface = rig.Desktop },
		"accelerator":    func(p *Plan) { p.Accel = "tcg,thread=single" },
		"no TSC rate":    func(p *Plan) { p.TSCKHz = 0 },
		"little memory":  func(p *Plan) { p.MemoryMB = 64 },
		"no processor":   func(p *Plan) { p.VCPUs = 0 },
		"root fs type":   func(p *Plan) { p.RootFSType = "ext4 init=/bin/sh" },
		"relative":       func(p *Plan) { p.Kernel = "vmlinux" },
		"line feed":      func(p *Plan) { p.Disk = "/d\n" },
		"memory kind":    func(p *Plan) { p.Memory = "other" },
		"no memory file": func(p *Plan) { p.Memory = Private },
	} {
		if plan(change).Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestVersions(t *testing.T) {
	for s, want := range map[string]Version{
		"7.2.22 (Debian 1:7.2+dfsg-7)": {7, 2, 22}, "8.2.2": {8, 2, 2}, "10.0": {10, 0, 0},
		"11.0.50-dirty": {11, 0, 50}, "9.1.0~rc1": {9, 1, 0},
	} {
		if got, err := ParseVersion(s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "seven", "7", "7.2x", "7..2", "99999.1"} {
		if v, err := ParseVersion(s); err == nil {
			t.Errorf("%q: %v", s, v)
		}
	}
	if !(Version{10, 0, 0}).AtLeast(Version{8, 2, 0}) || (Version{8, 1, 9}).AtLeast(Version{8, 2, 0}) || !(Version{8, 2, 1}).AtLeast(Version{8, 2, 1}) {
		t.Error("AtLeast")
	}
}

// The shape is of all that decides a command line, and of no path.
func TestShape(t *testing.T) {
	m := keeperapi.Machine{Surface: rig.Terminal, Accel: "tcg", QEMUVersion: "7.2.22", MemoryMB: 512, VCPUs: 2, DiskMB: 8192, TSCKHz: 1}
	a, err := Shape(m)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*keeperapi.Machine){
		"memory": func(m *keeperapi.Machine) { m.MemoryMB++ }, "vcpus": func(m *keeperapi.Machine) { m.VCPUs++ },
		"disk": func(m *keeperapi.Machine) { m.DiskMB++ }, "tsc": func(m *keeperapi.Machine) { m.TSCKHz++ },
	} {
		n := m
		change(&n)
		if b, err := Shape(n); err != nil || slices.Equal(a, b) {
			t.Errorf("another %s, the same shape; %v", name, err)
		}
	}
}
