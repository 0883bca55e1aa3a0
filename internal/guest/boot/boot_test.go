//go:build linux

package boot

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"rigs/internal/guestapi"
)

func TestParseParams(t *testing.T) {
	for _, c := range []struct {
		cmdline string
		want    Params
		err     string
	}{
		{"console=ttyS0 quiet rigs.surface=terminal rigs.rootfs=erofs\n", Params{"erofs", "terminal"}, ""},
		{"rigs.rootfs=ext4", Params{"ext4", ""}, ""},
		{"quiet", Params{}, "rigs.rootfs is missing"},
		{"rigs.rootfs=xfs", Params{}, "rigs.rootfs=xfs"},
		{"rigs.rootfs=ext4 rigs.new=1", Params{}, "rigs.new"},
		{"notrigs.rootfs=xfs rigs.rootfs=ext4", Params{"ext4", ""}, ""},
	} {
		got, err := ParseParams(c.cmdline)
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: got %+v, %v", c.cmdline, got, err)
		}
	}
}

const ours = "rig:x:1000:1000::/home/rig:/bin/bash\n"

func TestEditPasswd(t *testing.T) {
	const root, daemon = "root:x:0:0:root:/root:/bin/bash\n", "daemon:x:1:1::/:/usr/sbin/nologin\n"
	const node = "node:x:1000:1000::/home/node:/bin/sh\n"
	for name, c := range map[string]struct{ in, want string }{
		"an image without users":       {"", "root:x:0:0:root:/root:/bin/sh\n" + ours},
		"an image without the user":    {root + daemon, root + daemon + ours},
		"another user with the uid":    {root + node + daemon, root + ours + node + daemon},
		"it is there":                  {root + "rig:x:1000:1000:Rig:/home/rig:/bin/zsh\n", root + "rig:x:1000:1000:Rig:/home/rig:/bin/zsh\n"},
		"there, behind another":        {root + node + "rig:x:1000:1000::/home/rig:/bin/zsh\n", root + ours + node},
		"the name with another uid":    {root + "rig:x:500:500::/home/rig:/bin/sh\n" + daemon, root + daemon + ours},
		"no newline at the end":        {strings.TrimSuffix(root, "\n"), root + ours},
		"lines that mean nothing":      {root + "#\n\nbroken:line\n", root + "#\n\nbroken:line\n" + ours},
		"done twice changes no more":   {root + ours + node, root + ours + node},
		"a name that only begins so":   {root + "rigger:x:7:7::/:/bin/sh\n", root + "rigger:x:7:7::/:/bin/sh\n" + ours},
		"the uid as another's comment": {root + "a:x:5:1000:1000:/1000:/bin/sh\n", root + "a:x:5:1000:1000:/1000:/bin/sh\n" + ours},
	} {
		if got := editPasswd(c.in, "/bin/bash"); got != c.want {
			t.Errorf("%s:\ngot\n%swant\n%s", name, got, c.want)
		}
	}
}

func TestEditGroupAndShadow(t *testing.T) {
	if got, want := editGroup("root:x:0:\nnode:x:1000:\nsudo:x:27:rig\n"), "root:x:0:\nrig:x:1000:\nnode:x:1000:\nsudo:x:27:rig\n"; got != want {
		t.Errorf("group: got %q, want %q", got, want)
	}
	if got, want := editGroup("root:x:0:\nrig:x:1000:\n"), "root:x:0:\nrig:x:1000:\n"; got != want {
		t.Errorf("group: got %q, want %q", got, want)
	}
	if got, want := editShadow("root:*:1:0:99999:7:::\n"), "root:*:1:0:99999:7:::\nrig:*:19000:0:99999:7:::\n"; got != want {
		t.Errorf("shadow: got %q, want %q", got, want)
	}
	if got, want := editShadow("root::\nrig:$6$x:1::::::\n"), "root::\nrig:$6$x:1::::::\n"; got != want {
		t.Errorf("shadow: got %q, want %q", got, want)
	}
}

func TestMakeUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give the home directory to its user")
	}
	root := t.TempDir()
	for path, data := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/bash\n", "etc/sudoers": "", "etc/skel/.profile": "umask 022\n", "bin/bash": "",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time changes nothing
		if err := MakeUser(root); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]struct {
			data string
			mode os.FileMode
			uid  uint32
		}{
			"etc/passwd":        {"root:x:0:0:root:/root:/bin/bash\n" + ours, 0o644, 0},
			"etc/group":         {"root:x:0:\nrig:x:1000:\n", 0o644, 0},
			"etc/shadow":        {"root:*:19000:0:99999:7:::\nrig:*:19000:0:99999:7:::\n", 0o640, 0},
			"etc/sudoers.d/rig": {"rig ALL=(ALL:ALL) NOPASSWD:ALL\n", 0o440, 0},
			"home/rig/.profile": {"umask 022\n", 0o644, guestapi.UID},
		} {
			b, err := os.ReadFile(filepath.Join(root, path))
			if err != nil || string(b) != want.data {
				t.Errorf("%s: %q, %v", path, b, err)
				continue
			}
			fi, err := os.Stat(filepath.Join(root, path))
			if err != nil || fi.Mode().Perm() != want.mode || fi.Sys().(*syscall.Stat_t).Uid != want.uid {
				t.Errorf("%s: %v, %v", path, fi, err)
			}
		}
		fi, err := os.Stat(filepath.Join(root, "home/rig"))
		if err != nil || fi.Sys().(*syscall.Stat_t).Uid != guestapi.UID {
			t.Errorf("home: %v, %v", fi, err)
		}
	}
}

func TestMakeUserInAnEmptyImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give the home directory to its user")
	}
	root := t.TempDir()
	if err := MakeUser(root); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if want := "root:x:0:0:root:/root:/bin/sh\nrig:x:1000:1000::/home/rig:/bin/sh\n"; err != nil || string(b) != want {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(root, "etc/sudoers.d")); err == nil {
		t.Error("there is a rule for a sudo that is not there")
	}
}

func TestModulesAreLoadedInOrderOrFailByName(t *testing.T) {
	dir := t.TempDir()
	if err := loadModules(dir); err == nil || !strings.Contains(err.Error(), "order") {
		t.Errorf("without an order: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "order"), []byte("gone.ko\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := loadModules(dir); err == nil || !strings.Contains(err.Error(), "gone.ko") {
		t.Errorf("a module that is not there: %v", err)
	}
}
