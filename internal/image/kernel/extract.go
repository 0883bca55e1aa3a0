package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Limits on a kernel package.
const (
	maxBzImage = 128 << 20
	maxTotal   = 1 << 30 // of all modules as they are shipped
	maxEntries = 100_000
)

// Kernel is what was taken out of a package.
type Kernel struct {
	Release string // as uname -r says it
	VMLinux []byte
	Modules []Module // in the order in which to load them
}

// Module is one kernel module, uncompressed.
type Module struct {
	Name string // canonical, without .ko
	Data []byte
}

// Extract takes the kernel and the wanted modules out of a Debian kernel package.
func Extract(ctx context.Context, deb io.Reader, wanted []string) (Kernel, error) {
	files, done, err := openDeb(deb)
	if err != nil {
		return Kernel{}, err
	}
	defer done()
	var k Kernel
	var bzImage, builtin []byte
	shipped := map[string][]byte{} // modules as they are in the package
	var total int64
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return Kernel{}, err
		}
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Kernel{}, fmt.Errorf("read its files: %w", err)
		}
		if n > maxEntries {
			return Kernel{}, fmt.Errorf("it has more than %d files", maxEntries)
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		base := path.Base(name)
		mod, isModule := moduleName(name)
		var into *[]byte
		limit := int64(maxBzImage)
		switch {
		case strings.HasPrefix(name, "boot/vmlinuz-"):
			k.Release = strings.TrimPrefix(base, "vmlinuz-")
			into = &bzImage
		case base == "modules.builtin" && strings.Contains(name, "lib/modules/"):
			into = &builtin
		case isModule && strings.Contains(name, "lib/modules/"):
			b, err := readAll(files, maxModule)
			if err != nil {
				return Kernel{}, fmt.Errorf("read its %s: %w", name, err)
			}
			if total += int64(len(b)); total > maxTotal {
				return Kernel{}, fmt.Errorf("its modules have more than %d MB", maxTotal>>20)
			}
			shipped[mod] = b
			continue
		default:
			continue
		}
		if *into, err = readAll(files, limit); err != nil {
			return Kernel{}, fmt.Errorf("read its %s: %w", name, err)
		}
	}
	if bzImage == nil || builtin == nil {
		return Kernel{}, errors.New("it holds no boot/vmlinuz-* or no modules.builtin, so it is not a kernel package")
	}
	if k.VMLinux, err = extractVMLinux(bzImage); err != nil {
		return Kernel{}, fmt.Errorf("its kernel %s: %w", k.Release, err)
	}
	if k.Modules, err = pick(wanted, parseBuiltin(builtin), shipped); err != nil {
		return Kernel{}, err
	}
	return k, nil
}

// pick unpacks the wanted modules and their dependencies.
func pick(wanted []string, built map[string]bool, shipped map[string][]byte) ([]Module, error) {
	open := map[string][]byte{}
	order, err := loadOrder(wanted, built, func(name string) ([]string, bool, error) {
		raw, ok := shipped[name]
		if !ok {
			return nil, false, nil
		}
		r, done, err := decompress(bytes.NewReader(raw))
		if err != nil {
			return nil, false, err
		}
		defer done()
		ko, err := readAll(r, maxModule)
		if err != nil {
			return nil, false, err
		}
		open[name] = ko
		deps, err := moduleDepends(ko)
		return deps, true, err
	})
	if err != nil {
		return nil, err
	}
	mods := make([]Module, len(order))
	for i, n := range order {
		mods[i] = Module{Name: n, Data: open[n]}
	}
	return mods, nil
}
