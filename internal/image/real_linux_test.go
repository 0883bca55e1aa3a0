package image_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rigs/internal/image"
	"rigs/internal/rig"
	"rigs/internal/testenv"
)

// terminal is the real image in the cache of all tests: built from Debian's packages the first time, and
// whenever its definition or the recipe has changed.
func terminal(t *testing.T) (image.Boot, image.Image) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the real image the first time, which takes minutes and a network")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		t.Skip(err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	s := image.NewStore(testenv.Layout(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	last := ""
	progress := func(st rig.Step) {
		if st.Done > st.Total || st.Done < 0 {
			t.Errorf("progress %+v", st)
		}
		if st.Total == 0 && st.Text != last {
			last = st.Text
			t.Log(st.Text)
		}
	}
	img, err := s.Build(ctx, "terminal", image.BuildOptions{}, progress)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Boot(ctx, img, rig.Terminal, rig.Terminal.Defaults().DiskMB, testenv.Guest(t), progress)
	if err != nil {
		t.Fatal(err)
	}
	return b, img
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestTerminalImage(t *testing.T) {
	b, img := terminal(t)
	if img.AptHosts == nil {
		t.Error("the image's package mirrors are not known, so a rig could not reach them")
	}
	root := b.Files.RootFS
	output(t, "e2fsck", "-f", "-n", root)
	debugfs := func(command string) string { return output(t, "debugfs", "-R", command, root) }
	for command, wants := range map[string][]string{
		"stat /usr/bin/sudo":                      {"Mode:  04755", "User:     0"},
		"stat /usr/bin/git":                       {"Type: regular"},
		"stat /usr/bin/curl":                      {"Type: regular"},
		"stat /usr/bin/nano":                      {"Type: regular"},
		"stat /usr/bin/python3":                   {`Fast link dest: "python3.`},
		"stat /usr/sbin/ip":                       {"Inode:"},
		"stat /bin":                               {`Fast link dest: "usr/bin"`},
		"stat /home/rig":                          {"Type: directory", "User:  1000   Group:  1000"},
		"stat /etc/ssl/certs/ca-certificates.crt": {"Type: regular"},
		"cat /etc/passwd":                         {"rig:x:1000:1000:Rig:/home/rig:/bin/bash\n"},
		"cat /etc/sudoers.d/rig":                  {"rig ALL=(ALL:ALL) NOPASSWD: ALL"},
		"cat /etc/apt/sources.list":               {" main", "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg"},
		"stat /usr/share/keyrings/debian-archive-keyring.gpg": {"Inode:"},
		"cat /etc/dpkg/dpkg.cfg.d/rig":                        {"path-exclude=/usr/share/man/*"},
	} {
		out := debugfs(command)
		for _, w := range wants {
			if !strings.Contains(out, w) {
				t.Errorf("%s: no %q in\n%s", command, w, out)
			}
		}
	}
	// Nothing of the host, of the build, or that every rig would share.
	for _, path := range []string{"/etc/resolv.conf", "/etc/hostname", "/etc/apt/apt.conf.d/99mmdebstrap", "/etc/ssh/ssh_host_ed25519_key", "/usr/share/man/man1", "/usr/share/locale/de", "/init", "/modules"} {
		if out := debugfs("stat " + path); !strings.Contains(out, "File not found") {
			t.Errorf("the image holds %s", path)
		}
	}
	if out := debugfs("stat /etc/machine-id"); !strings.Contains(out, "Size: 0") {
		t.Errorf("the image has a machine id:\n%s", out)
	}
}

func TestTerminalKernel(t *testing.T) {
	b, _ := terminal(t)
	head := make([]byte, 20)
	f, err := os.Open(b.Files.Kernel)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAt(head, 0); err != nil || string(head[:5]) != "\x7fELF\x02" || head[18] != 62 {
		t.Errorf("the kernel begins with % x, %v; want a 64-bit ELF of x86-64", head, err)
	}
	mods, err := filepath.Glob(filepath.Join(filepath.Dir(b.Files.Kernel), "*.ko"))
	if err != nil || len(mods) < 5 {
		t.Errorf("modules %v, %v", mods, err)
	}
	for _, m := range mods {
		if data, err := os.ReadFile(m); err != nil || !strings.HasPrefix(string(data), "\x7fELF") {
			t.Errorf("%s is not a module as it is loaded: %v", m, err)
		}
	}
}

func TestBlankOfATerminal(t *testing.T) {
	b, _ := terminal(t)
	output(t, "e2fsck", "-f", "-n", b.Files.Blank)
	groups := output(t, "dumpe2fs", b.Files.Blank)
	if strings.Contains(groups, "has_journal") {
		t.Error("the empty file system has a journal")
	}
	if all, zeroed := strings.Count(groups, ": (Blocks "), strings.Count(groups, "ITABLE_ZEROED"); all == 0 || all != zeroed {
		t.Errorf("%d of %d inode tables are marked as zeroed; the guest would write the others out", zeroed, all)
	}
	want := fmt.Sprintf("Block count:              %d", rig.Terminal.Defaults().DiskMB*256)
	if !strings.Contains(groups, want) {
		t.Errorf("want %q in\n%.2000s", want, groups)
	}
}
