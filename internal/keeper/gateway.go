package keeper

import (
	"rigs/internal/keeper/gate"
	"rigs/internal/keeper/vm"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
)

func newGate(cfg keeperapi.Config, events func(rig.EgressEvent), ended func()) (gateway, error) {
	return gate.New(gate.Config{Patterns: cfg.Egress, Events: events, Ended: ended, Proxy: cfg.Proxy, MTU: vm.MTU})
}
