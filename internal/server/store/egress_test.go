package store

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"rigs/internal/rig"
)

func TestWorkspaceEgressIsReplacedAsAWholeAndGoesWithItsWorkspace(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	if err := s.AddWorkspace(t.Context(), "w", time.Now()); err != nil {
		t.Fatal(err)
	}
	get := func() map[rig.Surface]EgressChange {
		t.Helper()
		m, err := s.WorkspaceEgress(t.Context(), "w")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := map[rig.Surface]EgressChange{
		rig.Terminal: {Add: []string{"z.test", "a.test"}, Remove: []string{"github.com"}},
		rig.Desktop:  {Add: []string{"a.test"}},
	}
	second := map[rig.Surface]EgressChange{rig.Browser: {Remove: []string{"b.test"}}}
	for _, want := range []map[rig.Surface]EgressChange{first, second, {}} {
		if err := s.PutWorkspaceEgress(t.Context(), "w", want); err != nil {
			t.Fatal(err)
		}
		if got := get(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	// A change that cannot be made changes nothing.
	if err := s.PutWorkspaceEgress(t.Context(), "w", first); err != nil {
		t.Fatal(err)
	}
	twice := map[rig.Surface]EgressChange{rig.Terminal: {Add: []string{"a.test"}, Remove: []string{"a.test"}}}
	if err := s.PutWorkspaceEgress(t.Context(), "w", twice); err == nil {
		t.Error("one pattern is both added and removed")
	}
	if err := s.PutWorkspaceEgress(t.Context(), "none", first); err == nil {
		t.Error("a workspace that is not there has changes")
	}
	if got := get(); !reflect.DeepEqual(got, first) {
		t.Errorf("got %+v, want %+v", got, first)
	}
	if err := s.DeleteWorkspace(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if got := get(); len(got) != 0 {
		t.Errorf("a deleted workspace has %+v", got)
	}
}
