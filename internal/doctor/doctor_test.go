package doctor

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"rigs/internal/host"
	"rigs/internal/paths"
	"rigs/internal/rig"
	"rigs/internal/serverapi"
)

func TestLandlock(t *testing.T) {
	for abi, want := range map[int]string{0: "no Landlock", 2: "version 2", 7: "version 7"} {
		var r report
		r.landlock(abi)
		c := r.Checks[0]
		if c.Name != checkLock || !strings.Contains(c.Detail, want) || c.OK != (abi == 7) || c.OK == (c.Fix != "") {
			t.Errorf("version %d: %+v", abi, c)
		}
	}
}

func options(t *testing.T) Options {
	t.Helper()
	l, err := paths.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Layout: l,
		Accel: func(context.Context, host.QEMU) (host.Accel, error) {
			return host.Accel{Name: "tcg", Detail: "no device"}, nil
		},
		Images: func(context.Context) ([]serverapi.Image, error) {
			return []serverapi.Image{{Name: "terminal", Digest: "sha256:a", State: "ready"}}, nil
		},
	}
}

func surface(t *testing.T, d serverapi.Doctor, s rig.Surface) serverapi.Surface {
	t.Helper()
	for _, x := range d.Surfaces {
		if x.Surface == s {
			return x
		}
	}
	t.Fatalf("%s is not listed", s)
	return serverapi.Surface{}
}

// Every surface is listed, whatever is there; every check that failed and every
// surface that is missing says what helps.
func TestEverySurfaceInEveryState(t *testing.T) {
	none := func(o *Options) {}
	for name, c := range map[string]struct {
		change func(*Options)
		qemu   string
		state  string
		fix    string
	}{
		"as it should be": {none, "echo QEMU emulator version 7.2.22", ready, ""},
		"no QEMU":         {none, "", missing, "apt install qemu-system-x86"},
		"an old QEMU":     {none, "echo QEMU emulator version 5.0.0", missing, "apt install qemu-system-x86"},
		"no image":        {func(o *Options) { o.Images = func(context.Context) ([]serverapi.Image, error) { return nil, nil } }, "echo QEMU emulator version 7.2.22", missing, "rigs image build terminal"},
		"an unbuilt image": {func(o *Options) {
			o.Images = func(context.Context) ([]serverapi.Image, error) {
				return []serverapi.Image{{Name: "terminal", State: "missing"}}, nil
			}
		}, "echo QEMU emulator version 7.2.22", missing, "rigs image build terminal"},
		"an unreadable one": {func(o *Options) {
			o.Images = func(context.Context) ([]serverapi.Image, error) { return nil, errors.New("no") }
		}, "echo QEMU emulator version 7.2.22", missing, "rigs image build terminal"},
		"a user locked out": {func(o *Options) { o.RunsAs, o.Enter = "nobody", func() error { return errors.New("no") } }, "echo QEMU emulator version 7.2.22", missing, "RIGS_HOME"},
		"no agent":          {func(o *Options) { o.Guest = "/nowhere/rigs-guest" }, "echo QEMU emulator version 7.2.22", missing, "RIGS_GUEST"},
		"KVM": {func(o *Options) {
			o.Accel = func(context.Context, host.QEMU) (host.Accel, error) { return host.Accel{Name: "kvm"}, nil }
		}, "echo QEMU emulator version 7.2.22", ready, ""},
		"KVM not remembered": {func(o *Options) {
			o.Accel = func(context.Context, host.QEMU) (host.Accel, error) {
				return host.Accel{Name: "kvm"}, errors.New("read-only")
			}
		}, "echo QEMU emulator version 7.2.22", ready, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
				t.Skip("terminals are for linux/amd64")
			}
			t.Setenv("RIGS_QEMU", script(t, c.qemu))
			o := options(t)
			c.change(&o)
			d := Report(t.Context(), o)
			term := surface(t, d, rig.Terminal)
			if term.State != c.state || !strings.Contains(term.Fix, c.fix) || (c.state == missing) != (term.Fix != "") {
				t.Errorf("terminal: %+v", term)
			}
			if c.state == ready && !strings.HasPrefix(name, "KVM") && term.Accel != "tcg" || strings.HasPrefix(name, "KVM") && term.Accel != "kvm" {
				t.Errorf("accelerator %q", term.Accel)
			}
			for _, s := range rig.Surfaces {
				if x := surface(t, d, s); x.Detail == "" || s != rig.Terminal && x.State != unsupported {
					t.Errorf("%s: %+v", s, x)
				}
			}
			for _, ch := range d.Checks {
				if !ch.OK && (ch.Detail == "" || ch.Fix == "" && ch.Name != checkKVM) {
					t.Errorf("check %+v does not say what helps", ch)
				}
			}
		})
	}
}
