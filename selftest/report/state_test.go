package report

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The texts of the states can be parsed, and no other texts.
//
// selftest 7.2
func TestStateText(t *testing.T) {
	all := []State{Active, Busy, Down, Unknown}
	text, err := json.Marshal(all)
	if err != nil || string(text) != `["Active","Busy","Down","Unknown"]` {
		t.Errorf("%s, %v", text, err)
	}
	var back []State
	if err := json.Unmarshal([]byte(`["active","BUSY","Down","Unknown"]`), &back); err != nil || !cmp.Equal(back, all) {
		t.Errorf("%v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`["dead"]`), &back); err == nil {
		t.Error("there is a state dead")
	}
	if s := Invalid.String(); s != "states 0xe" {
		t.Error(s)
	}
}
