package paths

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTwoDataDirectoriesShareNoRuntimeDirectory(t *testing.T) {
	a, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if a.Runtime() == b.Runtime() {
		t.Errorf("both use %s", a.Runtime())
	}
	if err := CheckSocket(a.KeeperSocket("0123456789")); err != nil {
		t.Error(err)
	}
	if err := CheckSocket("/" + strings.Repeat("x", MaxSocket)); err == nil {
		t.Error("a socket path that is too long was accepted")
	}
}

func TestTheSameDirectoryByASymlinkIsTheSameLayout(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	a, _ := New(dir)
	b, _ := New(link)
	if a != b {
		t.Errorf("%v and %v", a, b)
	}
}

func TestAPlantedDirectoryIsRefused(t *testing.T) {
	base := t.TempDir()
	ok := filepath.Join(base, "ok")
	for range 2 { // made, then found
		if err := MakePrivate(ok); err != nil {
			t.Fatal(err)
		}
	}
	loose := filepath.Join(base, "loose")
	os.Mkdir(loose, 0o755)
	link := filepath.Join(base, "link")
	os.Symlink(ok, link)
	file := filepath.Join(base, "file")
	os.WriteFile(file, nil, 0o700)
	for _, p := range []string{loose, link, file} {
		if err := MakePrivate(p); !errors.Is(err, ErrUntrusted) {
			t.Errorf("%s: %v, want ErrUntrusted", filepath.Base(p), err)
		}
	}
}
