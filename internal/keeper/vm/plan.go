package vm

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"rigs/internal/guestapi"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

// The descriptors that a QEMU inherits; exec.Cmd counts its ExtraFiles from 3.
const (
	monitorFD = 3 + iota
	consoleFD
	agentFD
	netFD
)

// MTU is the largest packet of the guest's NIC: large packets are what makes a
// user-space network fast.
const MTU = 65520

// agentID names the agent's port in the monitor's events.
const agentID = "agent"

// mac is the same in every guest: each is alone on its wire.
const mac = "52:54:00:12:34:56"

// tbSizeMB bounds QEMU's buffer of translated code, which is otherwise up to a
// GB for each machine.
const tbSizeMB = 128

// Memory says what the guest's RAM is made of.
type Memory string

// The kinds of memory.
const (
	Plain   Memory = "plain"   // anonymous: a cold boot
	Shared  Memory = "shared"  // a file that is written: a template being made
	Private Memory = "private" // a file mapped copy-on-write: a clone
)

// Plan is everything that decides a QEMU's command line. Paths are absolute.
type Plan struct {
	Version    Version
	Accel      string // tcg or kvm
	MemoryMB   int
	VCPUs      int
	TSCKHz     int // the host's; needed with tcg
	Surface    rig.Surface
	Kernel     string
	Initrd     string
	RootFS     string // opened read-only
	RootFSType string
	Disk       string // qcow2, the writable layer
	Memory     Memory
	MemoryFile string // with Shared and Private
}

// NewPlan takes the machine and its files from a keeper's configuration.
func NewPlan(m keeperapi.Machine, b keeperapi.BootFiles) (Plan, error) {
	v, err := ParseVersion(m.QEMUVersion)
	if err != nil {
		return Plan{}, rig.Errorf(rig.CodeUnavailable, "QEMU: %w: install QEMU %s or newer", err, Oldest)
	}
	p := Plan{
		Version: v, Accel: m.Accel, MemoryMB: m.MemoryMB, VCPUs: m.VCPUs, TSCKHz: m.TSCKHz, Surface: m.Surface,
		Kernel: b.Kernel, Initrd: b.Initrd, RootFS: b.RootFS, RootFSType: b.RootFSType, Memory: Plain,
	}
	return p, nil
}

// Check finds what Argv must not be given.
func (p Plan) Check() error {
	bad := func(format string, args ...any) error {
		return rig.Errorf(rig.CodeInvalidRequest, "machine: "+format, args...)
	}
	switch {
	case !p.Version.AtLeast(Oldest):
		return rig.Errorf(rig.CodeUnavailable, "machine: QEMU %s is too old: install %s or newer", p.Version, Oldest)
	case p.Surface != rig.Terminal:
		return rig.Errorf(rig.CodeUnavailable, "machine: no enclosure for surface %q in this version", p.Surface)
	case p.Accel != "tcg" && p.Accel != "kvm":
		return bad("accelerator %q: it must be tcg or kvm", p.Accel)
	case p.Accel == "tcg" && p.TSCKHz <= 0:
		return bad("the host's TSC rate is not known: emulated machines hang at boot without it")
	case p.MemoryMB < 128 || p.MemoryMB > 65536:
		return bad("memory of %d MB: it must be 128 to 65536", p.MemoryMB)
	case p.VCPUs < 1 || p.VCPUs > 64:
		return bad("%d processors: it must be 1 to 64", p.VCPUs)
	case p.RootFSType != "erofs" && p.RootFSType != "ext4":
		return bad("root file system of type %q: it must be erofs or ext4", p.RootFSType)
	case p.Memory != Plain && p.Memory != Shared && p.Memory != Private:
		return bad("memory of kind %q", p.Memory)
	}
	paths := []string{p.Kernel, p.Initrd, p.RootFS, p.Disk}
	if p.Memory != Plain {
		paths = append(paths, p.MemoryFile)
	}
	for _, f := range paths {
		if !filepath.IsAbs(f) || strings.ContainsAny(f, "\n\x00") {
			return bad("path %q: it must be absolute", f)
		}
	}
	return nil
}

// ErrUnknownPlan is returned by Shape for a machine that Argv cannot describe.
var ErrUnknownPlan = errors.New("no command line for this machine")

// Shape is the command line of a clone with placeholders for paths: what a template depends
// on beside the content of its files.
func Shape(m keeperapi.Machine) ([]string, error) {
	p, err := NewPlan(m, keeperapi.BootFiles{Kernel: "/kernel", Initrd: "/initrd", RootFS: "/rootfs", RootFSType: "erofs"})
	if err != nil {
		return nil, err
	}
	p.Disk, p.Memory, p.MemoryFile = "/disk", Private, "/memory"
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknownPlan, err)
	}
	return append(Argv(p), "disk="+strconv.Itoa(m.DiskMB)), nil
}

// Argv is the command line for a plan that passed Check, without the program's
// name.
func Argv(p Plan) []string {
	var a []string
	add := func(name string, opts ...string) { a = append(append(a, "-"+name), opts...) }
	add("nodefaults")
	add("no-user-config")
	add("sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
	add("display", "none")
	add("no-reboot") // a guest that panics or reboots ends its machine; the keeper then says so

	// The interrupt controllers and timers of a PC cost boot time and are not
	// needed; this kernel finds virtio-mmio devices only through ACPI.
	add("machine", "microvm,acpi=on,pit=off,pic=off,rtc=on,dump-guest-core=off,memory-backend=ram")
	switch p.Accel {
	case "kvm":
		add("accel", "kvm")
		add("cpu", "host")
	default:
		add("accel", "tcg,tb-size="+strconv.Itoa(tbSizeMB))
		// Without erms the guest copies memory by loops and not by "rep movsb", which
		// TCG emulates byte by byte: 100 MB through exec cost 2.8 s of processor time instead
		// of 6.5 (measured 2026-11).
		add("cpu", "max,erms=off")
	}
	add("smp", strconv.Itoa(p.VCPUs))
	add("m", strconv.Itoa(p.MemoryMB)+"M")
	size := strconv.Itoa(p.MemoryMB) + "M"
	switch p.Memory {
	case Shared:
		add("object", "memory-backend-file,id=ram,size="+size+",share=on,mem-path="+escape(p.MemoryFile))
	case Private:
		o := "memory-backend-file,id=ram,size=" + size + ",share=off,mem-path=" + escape(p.MemoryFile)
		if p.Version.ReadOnlyTemplates() {
			o += ",readonly=on,rom=off"
		}
		add("object", o)
	default:
		add("object", "memory-backend-ram,id=ram,size="+size)
	}

	add("kernel", p.Kernel)
	add("initrd", p.Initrd)
	add("append", commandLine(p))

	add("chardev", "socket,id=monitor,fd="+strconv.Itoa(monitorFD))
	add("mon", "chardev=monitor,mode=control")
	add("chardev", "socket,id=console,fd="+strconv.Itoa(consoleFD))
	add("serial", "chardev:console")

	// The order of the disks is the order of their names: vda, vdb. Flushes are
	// ignored for the second, which is thrown away anyway.
	add("blockdev", "driver=raw,node-name=root,read-only=on,file.driver=file,file.filename="+escape(p.RootFS))
	add("device", "virtio-blk-device,drive=root,serial=root")
	add("blockdev", "driver=qcow2,node-name=data,cache.no-flush=on,discard=unmap,file.driver=file,file.cache.no-flush=on,file.discard=unmap,file.filename="+escape(p.Disk))
	add("device", "virtio-blk-device,drive=data,serial=data,rerror=report,werror=report")

	add("device", "virtio-serial-device,max_ports=2")
	add("chardev", "socket,id=agent,fd="+strconv.Itoa(agentFD))
	add("device", "virtserialport,id="+agentID+",chardev=agent,name="+guestapi.Port)

	add("netdev", "stream,id=net,server=off,addr.type=fd,addr.str="+strconv.Itoa(netFD))
	add("device", "virtio-net-device,netdev=net,host_mtu="+strconv.Itoa(MTU)+",mac="+mac)

	add("device", "virtio-rng-device")
	add("device", "virtio-balloon-device,free-page-reporting=on")
	if p.Memory == Private {
		add("incoming", "defer")
	}
	return a
}

// commandLine is the guest kernel's.
func commandLine(p Plan) string {
	c := []string{"console=ttyS0", "quiet", "panic=-1", "reboot=t"}
	if p.Accel == "tcg" {
		// An emulated timer cannot calibrate the TSC on a busy host: about half of
		// all boots hung without these two.
		c = append(c, "tsc_early_khz="+strconv.Itoa(p.TSCKHz), "tsc=reliable")
	}
	return strings.Join(append(c, "rigs.surface="+string(p.Surface), "rigs.rootfs="+p.RootFSType), " ")
}

// escape makes s one value of a comma-separated option.
func escape(s string) string { return strings.ReplaceAll(s, ",", ",,") }
