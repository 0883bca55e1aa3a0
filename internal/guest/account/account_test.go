//go:build linux

package account

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestLookup(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(root+"/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"passwd": "broken\nrig:x:x:1::/x:/x\nother:x:7:7::/:/bin/sh\nrig:x:1000:1001:Rig,,,:/home/rig:/bin/bash\nrig:x:5:5::/late:/bin/sh\nbare:x:8:8:::\n",
		"group":  "root:x:0:\nsudo:x:27:a,rig\nmine:x:1001:rig\nrigs:x:9:rigger\ndocker:x:99:rig\nbad:x:y:rig\n",
	} {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a, err := Lookup(root, "rig")
	if err != nil {
		t.Fatal(err)
	}
	if a.UID != 1000 || a.GID != 1001 || a.Home != "/home/rig" || a.Shell != "/bin/bash" || !slices.Equal(a.Groups, []int{1001, 27, 99}) {
		t.Errorf("got %+v", a)
	}
	if a, err = Lookup(root, "bare"); err != nil || a.Home != "/" || a.Shell != "/bin/sh" {
		t.Errorf("got %+v, %v", a, err)
	}
	if _, err = Lookup(root, "nobody-at-all"); err == nil || !strings.Contains(err.Error(), "nobody-at-all") {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(root + "/etc/passwd"); err != nil {
		t.Fatal(err)
	}
	if _, err = Lookup(root, "rig"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestAbs(t *testing.T) {
	a := Account{Home: "/home/rig"}
	for in, want := range map[string]string{"": "/home/rig", "~": "/home/rig", "~/a": "/home/rig/a", "a/b": "/home/rig/a/b", "/a": "/a", "~a": "/home/rig/~a"} {
		if got := a.Abs(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// What Do does has the user's rights, and nothing else ever has: neither the
// caller, nor goroutines and threads that begin meanwhile.
func TestDoIsTheUserAndNobodyElseIs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be somebody else")
	}
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := Account{Name: "rig", UID: 1000, GID: 1000, Groups: []int{1000}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				err := a.Do(func() error {
					// One that is started here must not inherit this thread's identity.
					done := make(chan error)
					go func() { _, err := os.ReadFile(secret); done <- err }()
					if err := <-done; err != nil {
						t.Errorf("a goroutine of Do's is not root: %v", err)
					}
					_, err := os.ReadFile(secret)
					return err
				})
				if !errors.Is(err, fs.ErrPermission) {
					t.Errorf("as the user: %v", err)
				}
				if _, err := os.ReadFile(secret); err != nil {
					t.Errorf("as root again: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestDoPassesAPanicOn(t *testing.T) {
	defer func() {
		if r := recover(); r != "at the disco" {
			t.Errorf("got %v", r)
		}
	}()
	_ = Account{UID: os.Geteuid(), GID: os.Getegid()}.Do(func() error { panic("at the disco") })
}
