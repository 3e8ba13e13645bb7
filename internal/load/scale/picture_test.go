package scale

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
)

var write = flag.Bool("write", false, "write the picture of docs/scale")

// The picture in the documentation is that of the figures there.
func TestPicture(t *testing.T) {
	const figures, picture = "../../../docs/scale/simulation.json", "../../../docs/scale/simulation.svg"
	b, err := os.ReadFile(figures)
	if err != nil {
		t.Fatal(err)
	}
	var all []*Simulation
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	want := Draw(all)
	if *write {
		if err := os.WriteFile(picture, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not the picture of %s; run: go test ./internal/load/scale -write", picture, figures)
	}
}
