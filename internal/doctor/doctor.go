// Package doctor reports what this host can boot, from trying and not from
// guessing, and for everything that is missing the command that gets it. Every surface
// is listed in every state.
//
// It changes nothing on the host. What costs a boot (whether KVM runs a guest) is
// answered by package host, which remembers.
package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"rigs/internal/host"
	"rigs/internal/keeper/confine"
	"rigs/internal/paths"
	"rigs/internal/rig"
	"rigs/internal/serverapi"
)

// What a host should have, in MB.
const (
	minMemory = 1024
	minDisk   = 2048
)

// Options are what a report needs to know beyond the host itself.
type Options struct {
	Layout paths.Layout
	// Accel answers how guests run, with the QEMU that was found.
	Accel func(ctx context.Context, q host.QEMU) (host.Accel, error)
	// Images lists the images; the terminal's decides whether that surface is ready.
	Images func(ctx context.Context) ([]serverapi.Image, error)
	// Guest is the path of rigs-guest, which every machine boots with.
	Guest string
	// RunsAs is the user that machines run as, when not the server's own; Enter says
	// whether that user can reach the data directory.
	RunsAs string
	Enter  func() error
}

// report collects checks.
type report struct{ serverapi.Doctor }

func (r *report) check(name string, err error, detail, fix string) bool {
	c := serverapi.Check{Name: name, OK: err == nil, Detail: detail}
	if err != nil {
		c.Detail, c.Fix = err.Error(), fix
	}
	r.Checks = append(r.Checks, c)
	return c.OK
}

// Names of checks.
const (
	checkSystem = "system"
	checkQEMU   = "qemu"
	checkKVM    = "kvm"
	checkClock  = "clock"
	checkGuest  = "guest"
	checkImage  = "image"
	checkBuild  = "mmdebstrap"
	checkMemory = "memory"
	checkDisk   = "disk"
	checkUser   = "user"
	checkLock   = "landlock"
)

// Report looks at the host.
func Report(ctx context.Context, o Options) serverapi.Doctor {
	r := &report{serverapi.Doctor{Host: host.Facts(o.Layout.Data()), Checks: []serverapi.Check{}}}
	system := r.check(checkSystem, supported(), runtime.GOOS+"/"+runtime.GOARCH, "use a Linux host with an x86-64 processor")
	q, err := host.FindQEMU(ctx)
	qemu := r.check(checkQEMU, err, "QEMU "+q.Text+" at "+q.Path, "sudo apt install qemu-system-x86")
	accel := host.Accel{Name: "tcg"}
	if system && qemu && o.Accel != nil {
		accel, err = o.Accel(ctx, q)
		if err != nil {
			accel.Detail += " (not remembered: " + err.Error() + ")"
		}
	}
	r.kvm(accel, system && qemu)
	clock := true
	if system {
		khz, err := host.TSCKHz(ctx, o.Layout)
		clock = r.check(checkClock, err, fmt.Sprintf("time-stamp counter at %.3f MHz", float64(khz)/1000), "use a host whose processor has a steady time-stamp counter")
	}
	guest := true
	if o.Guest != "" {
		_, err := os.Stat(o.Guest)
		guest = r.check(checkGuest, err, "the agent inside machines is "+o.Guest, "put rigs-guest beside rigs, or name it with RIGS_GUEST")
	}
	image := r.image(ctx, o)
	_, err = exec.LookPath("mmdebstrap")
	r.check(checkBuild, err, "images can be built", "sudo apt install mmdebstrap")
	r.check(checkMemory, atLeast(r.Host.MemoryMB, minMemory, "memory"), fmt.Sprintf("%d MB, %d MB available", r.Host.MemoryMB, host.MemoryAvailableMB()), "use a host with more memory")
	r.check(checkDisk, atLeast(r.Host.DiskFreeMB, minDisk, "free disk space"), fmt.Sprintf("%d MB free in %s", r.Host.DiskFreeMB, o.Layout.Data()), "make room, or choose another data directory with RIGS_HOME")
	user := true
	if o.RunsAs != "" && o.Enter != nil {
		user = r.check(checkUser, o.Enter(), "machines run as user "+o.RunsAs, "choose a data directory that this user can enter (RIGS_HOME), such as /var/lib/rigs")
	}
	if system {
		r.landlock(confine.ABI())
	}
	r.Surfaces = surfaces(accel.Name, terminalState(system, qemu && clock && user && guest, image), r.fixes())
	return r.Doctor
}

func supported() error {
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return nil
	}
	return rig.Errorf(rig.CodeUnavailable, "this version boots machines on linux/amd64 only; this is %s/%s", runtime.GOOS, runtime.GOARCH)
}

func atLeast(have, need int, what string) error {
	if have >= need || have == 0 { // 0: unknown
		return nil
	}
	return rig.Errorf(rig.CodeCapacity, "%d MB of %s: at least %d MB are needed", have, what, need)
}

// landlock is not an error when it is missing or old: keepers then do without.
func (r *report) landlock(abi int) {
	var err error
	if lacks := confine.Lacks(abi); lacks != "" {
		err = rig.Errorf(rig.CodeUnavailable, "%s", lacks)
	}
	r.check(checkLock, err, fmt.Sprintf("keepers and hypervisors are confined by Landlock, version %d", abi), "machines run all the same; for one barrier more use Linux 6.12 or newer, with landlock among the kernel's lsm= modules")
}

// kvm is not an error when it is missing: guests are then emulated.
func (r *report) kvm(a host.Accel, asked bool) {
	c := serverapi.Check{Name: checkKVM, OK: a.Name == "kvm", Detail: a.Detail, Fix: a.Fix}
	if !asked {
		c.Detail = "not tried: QEMU is missing or does not run here"
	}
	r.Checks = append(r.Checks, c)
}

// image checks the terminal's image.
func (r *report) image(ctx context.Context, o Options) bool {
	const fix = "rigs image build terminal"
	if o.Images == nil {
		return r.check(checkImage, rig.Errorf(rig.CodeUnavailable, "not looked for"), "", fix)
	}
	list, err := o.Images(ctx)
	if err != nil {
		return r.check(checkImage, err, "", fix)
	}
	for _, img := range list {
		if img.Name != string(rig.Terminal) {
			continue
		}
		if img.State != "ready" {
			return r.check(checkImage, rig.Errorf(rig.CodeUnavailable, "image %s is %s%s", img.Name, img.State, colon(img.Detail)), "", fix)
		}
		return r.check(checkImage, nil, img.Name+"@"+img.Digest, "")
	}
	return r.check(checkImage, rig.Errorf(rig.CodeNotFound, "there is no image %s", rig.Terminal), "", fix)
}

func colon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// fixes are what makes a terminal possible, by check.
func (r *report) fixes() map[string]string {
	m := map[string]string{}
	for _, c := range r.Checks {
		if !c.OK {
			m[c.Name] = c.Fix
		}
	}
	return m
}

// States of a surface.
const (
	ready       = "ready"
	missing     = "missing"
	unsupported = "unsupported"
)

func terminalState(system, machine, image bool) string {
	switch {
	case !system:
		return unsupported
	case !machine || !image:
		return missing
	}
	return ready
}

// surfaces lists every surface. fixes is what each failed check needs.
func surfaces(accel, terminal string, fixes map[string]string) []serverapi.Surface {
	t := serverapi.Surface{Surface: rig.Terminal, State: terminal, Checks: []string{checkSystem, checkQEMU, checkKVM, checkClock, checkGuest, checkImage, checkUser}}
	switch terminal {
	case ready:
		t.Accel, t.Detail = accel, "microVMs, emulated: works everywhere, slower than with KVM"
		if accel == "kvm" {
			t.Detail = "microVMs with KVM"
		}
	case missing:
		var need []string
		for _, name := range []string{checkQEMU, checkClock, checkGuest, checkUser, checkImage} {
			if f, ok := fixes[name]; ok {
				need = append(need, f)
			}
		}
		t.Detail, t.Fix = "something is missing", strings.Join(need, "; ")
	case unsupported:
		t.Detail, t.Fix = "this host cannot run it", fixes[checkSystem]
	}
	res := []serverapi.Surface{t}
	for _, s := range []struct {
		surface rig.Surface
		detail  string
	}{
		{rig.Browser, "not in this version: terminals only"},
		{rig.Desktop, "not in this version: terminals only"},
		{rig.Phone, "not in this version: it will need Google's Android emulator and SDK"},
		{rig.Mac, "not in this version: it will need a Mac with Apple silicon"},
	} {
		res = append(res, serverapi.Surface{Surface: s.surface, State: unsupported, Detail: s.detail})
	}
	return res
}
