package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"rigs/client"
)

// measureMemory adds up the proportional set sizes (PSS: a shared page counts for each
// user's share) of what belongs to one rig and to eight.
func measureMemory(ctx context.Context, b *bench, rep *report) error {
	var ids []string
	defer func() {
		for _, id := range ids {
			b.Close(context.WithoutCancel(ctx), id) //nolint:errcheck // the server closes it with itself
		}
	}()
	for _, n := range []int{1, 8} {
		for len(ids) < n {
			r, err := b.open(ctx, client.Spec{}, nil)
			if err != nil {
				return err
			}
			ids = append(ids, r.ID)
			if err := say(ctx, b, r.ID); err != nil {
				return err
			}
		}
		var vm, keeper []float64
		for _, id := range ids {
			v, k, err := pss(id)
			if err != nil {
				return err
			}
			vm, keeper = append(vm, v), append(keeper, k)
		}
		which := "one rig"
		if n > 1 {
			which = fmt.Sprintf("each of %d rigs", n)
		}
		rep.add("memory (PSS) of the VM, "+which, "MB", "", vm...)
		rep.add("memory (PSS) of the keeper, "+which, "MB", "≤ 25", keeper...)
	}
	return nil
}

// pss returns the memory in MB of a rig's QEMU and of its keeper.
func pss(id string) (vm, keeper float64, err error) {
	err = processes(id, func(dir, exe string) error {
		roll, err := os.ReadFile(dir + "/smaps_rollup")
		if err != nil {
			return err
		}
		mb := 0.0
		for line := range strings.Lines(string(roll)) {
			if kb := 0; strings.HasPrefix(line, "Pss:") {
				if _, err := fmt.Sscanf(line, "Pss: %d kB", &kb); err != nil {
					return fmt.Errorf("%s: %w", dir, err)
				}
				mb = float64(kb) / 1024
			}
		}
		if isQEMU(exe) {
			vm += mb
		} else {
			keeper += mb
		}
		return nil
	})
	if err == nil && (vm == 0 || keeper == 0) {
		err = fmt.Errorf("rig %s: VM %.1f MB, keeper %.1f MB: not found among the processes", id, vm, keeper)
	}
	return vm, keeper, err
}
