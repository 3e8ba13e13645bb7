package server

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/control/api"
)

// The parameters that can be set have a range each, and no others have.
func TestGlobalRanges(t *testing.T) {
	settable := slices.Sorted(slices.Values(api.SettableGlobals()))
	if diff := cmp.Diff(settable, slices.Sorted(maps.Keys(globalRanges))); diff != "" {
		t.Error(diff)
	}
}
