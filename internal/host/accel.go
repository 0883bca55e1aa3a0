package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"rigs/internal/keeper/vm"
	"rigs/internal/paths"
)

// ProbeTimeout is how long a probe guest may take to reach its agent. With a KVM that
// works it takes half a second.
const ProbeTimeout = 15 * time.Second

// kvmDevice is how Linux offers KVM.
const kvmDevice = "/dev/kvm"

// Accel is how guests run here, and why.
type Accel struct {
	Name   string `json:"name"`   // kvm or tcg
	Detail string `json:"detail"` // one sentence for a person
	Fix    string `json:"fix,omitempty"`
}

// Probing is what an answer depends on, and how to get one.
type Probing struct {
	QEMU   QEMU
	Kernel string // digest of the kernel that the probe boots
	User   string // as whom machines run, when not as this process
	Fresh  bool   // do not believe an earlier answer
	// Run boots the probe guest with the accelerator and returns nil when its
	// agent has answered. nil: nothing can be probed yet, so that an earlier answer or emulation it is.
	Run func(ctx context.Context, accel string) error
}

type accelRecord struct {
	Key   string `json:"key"`
	Accel Accel  `json:"accel"`
}

// Probe finds out how guests run here. It always has an answer: emulation works
// everywhere. The error, if any, is about keeping it.
func Probe(ctx context.Context, l paths.Layout, p Probing) (Accel, error) {
	return probe(ctx, l, p, kvmDevice)
}

func probe(ctx context.Context, l paths.Layout, p Probing, device string) (Accel, error) {
	if a, ok := withoutProbe(device); ok {
		return a, nil
	}
	path := filepath.Join(l.Probes(), "kvm.json")
	key := probeKey(p)
	if !p.Fresh || p.Run == nil {
		if r, err := readAccel(path); err == nil && r.Key == key {
			return r.Accel, nil
		}
	}
	if p.Run == nil {
		return Accel{Name: "tcg", Detail: "KVM's device opens; whether it runs a guest is not known before the first image is built"}, nil
	}
	a := Accel{Name: "kvm", Detail: "a probe guest ran with KVM"}
	pctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	if err := p.Run(pctx, "kvm"); err != nil {
		a = Accel{Name: "tcg", Detail: "KVM's device opens, but a guest did not come up in it: " + short(err.Error()), Fix: "enable (nested) virtualization for this host"}
		if ctx.Err() != nil {
			return a, ctx.Err() // that says nothing about KVM
		}
	}
	return a, writeProbe(path, accelRecord{key, a})
}

// withoutProbe answers where there is nothing to probe.
func withoutProbe(device string) (Accel, bool) {
	if runtime.GOOS != "linux" {
		return Accel{Name: "tcg", Detail: "KVM is Linux's"}, true
	}
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	switch {
	case err == nil:
		f.Close()
		return Accel{}, false
	case errors.Is(err, os.ErrNotExist):
		return Accel{Name: "tcg", Detail: "there is no " + device + ": guests are emulated, which is slower", Fix: "on a computer: enable virtualization in its firmware; in a virtual machine or cloud instance: choose one with nested virtualization"}, true
	case errors.Is(err, os.ErrPermission):
		return Accel{Name: "tcg", Detail: device + " may not be opened: guests are emulated, which is slower", Fix: "sudo usermod -aG kvm $USER, then log in again"}, true
	}
	return Accel{Name: "tcg", Detail: device + " does not open (" + err.Error() + "): guests are emulated, which is slower", Fix: "load the kernel's kvm module: sudo modprobe kvm_intel (or kvm_amd)"}, true
}

func probeKey(p Probing) string {
	h := sha256.New()
	for _, s := range []string{bootID(), CPU(), p.QEMU.Path, p.QEMU.Text, p.Kernel, p.User} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

func readAccel(path string) (accelRecord, error) {
	var r accelRecord
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ") // of a console's lines, one
	s = vm.Clean(s)
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}
