package authority

import (
	"context"
	"strconv"
	"testing"

	"rigs/internal/rig"
)

func TestAgentsArePacedAndPeopleAreNot(t *testing.T) {
	var p pace
	gone, cancel := context.WithCancel(context.Background())
	otto := Who{Principal: rig.Principal{Name: "otto", Kind: rig.Agent}}
	p.limiter("otto").SetLimit(0) // no turn comes back in this test
	for i := range paceBurst {
		if err := p.wait(gone, otto); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	cancel()
	if err := p.wait(gone, otto); err == nil {
		t.Error("an agent goes on without its turn")
	}
	if err := p.wait(context.Background(), Who{Principal: rig.Principal{Name: "emma", Kind: rig.Agent}}); err != nil {
		t.Errorf("one agent waits for another: %v", err)
	}
	if err := p.wait(gone, Who{Principal: rig.Principal{Name: "otto", Kind: rig.Person}}); err != nil {
		t.Errorf("a person waits: %v", err)
	}
	for i := range 3 * paceMost {
		p.limiter(strconv.Itoa(i))
	}
	if len(p.of) > paceMost {
		t.Errorf("%d paces are kept", len(p.of))
	}
}
