package kernel

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxModule bounds an uncompressed module.
const maxModule = 64 << 20

// Wanted are the modules that the guest needs. The order is that in which they are
// loaded, apart from dependencies, which come first. What a kernel has built in is left out.
//
// virtio_mmio and virtio_blk lead to the disks, virtio_console to the keeper; crc32c
// is ext4's; net_failover is what virtio_net asks for; virtio_balloon gives
// memory back before a machine is frozen. An accelerated crc32c comes first, or the
// file system takes the slow one.
var Wanted = []string{
	"virtio_ring", "virtio", "virtio_mmio", "virtio_blk", "virtio_console",
	"crc32c-intel", "crc32c_generic", "libcrc32c", "crc16", "mbcache", "jbd2", "ext4",
	"overlay", "failover", "net_failover", "virtio_net", "virtio-rng", "virtio_balloon",
}

// optional are modules of Wanted that a kernel may lack altogether: newer ones have them
// folded into others.
var optional = map[string]bool{
	"crc32c_intel": true, "crc32c_generic": true, "libcrc32c": true, "crc16": true, "mbcache": true, "jbd2": true,
}

// canonical is how the kernel writes a module's name: dashes are underscores.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// moduleName returns the canonical name of a module's file, such as crc32c_intel for
// kernel/arch/x86/crypto/crc32c-intel.ko.xz.
func moduleName(file string) (string, bool) {
	base := path.Base(file)
	for _, suffix := range []string{".ko", ".ko.xz", ".ko.gz", ".ko.zst"} {
		if n, ok := strings.CutSuffix(base, suffix); ok {
			return canonical(n), true
		}
	}
	return "", false
}

// parseBuiltin reads modules.builtin: one path a line.
func parseBuiltin(data []byte) map[string]bool {
	built := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if n, ok := moduleName(strings.TrimSpace(line)); ok {
			built[n] = true
		}
	}
	return built
}

// loadOrder returns the wanted modules and what they depend on, each after what it
// needs. depends returns what a module says it needs, and false if there is no such module.
func loadOrder(wanted []string, built map[string]bool, depends func(name string) ([]string, bool, error)) ([]string, error) {
	var order []string
	state := map[string]int{} // 1: being visited, 2: done
	var visit func(name, by string) error
	visit = func(name, by string) error {
		name = canonical(name)
		if built[name] || state[name] == 2 {
			return nil
		}
		if state[name] == 1 {
			return fmt.Errorf("module %s depends on itself by way of %s", name, by)
		}
		state[name] = 1
		deps, found, err := depends(name)
		switch {
		case err != nil:
			return fmt.Errorf("module %s: %w", name, err)
		case !found && by == "" && optional[name]:
			state[name] = 2
			return nil
		case !found && by == "":
			return fmt.Errorf("the kernel has no module %s, and it is not built in", name)
		case !found:
			return fmt.Errorf("the kernel has no module %s, which %s needs", name, by)
		}
		for _, d := range deps {
			if err := visit(d, name); err != nil {
				return err
			}
		}
		state[name] = 2
		order = append(order, name)
		return nil
	}
	for _, w := range wanted {
		if err := visit(w, ""); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// moduleDepends reads what a module says it needs (depends= in the ELF section
// .modinfo: names with commas between them).
func moduleDepends(ko []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(ko))
	if err != nil {
		return nil, err
	}
	sec := f.Section(".modinfo")
	if sec == nil {
		return nil, errors.New("it has no section .modinfo")
	}
	data, err := sec.Data()
	if err != nil {
		return nil, err
	}
	for _, entry := range strings.Split(string(data), "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok {
			return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" }), nil
		}
	}
	return nil, nil
}
