package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Options of lst are sent to lnetd.
//
// selftest 8 (4), 8 (8), 8 (10), 8 (12)-(13)
func TestLstAsksForWhatItIsTold(t *testing.T) {
	t.Setenv("LST_SESSION", "7")
	for line, want := range map[string]map[string]any{
		"add_test --batch b --loop 9 --concurrency 4 --distribute 2:3 --from c --to s ping": {
			"batch": "b", "loop": 9.0, "concurrency": 4.0, "distribute": 2.0, "span": 3.0, "from": "c", "to": "s",
		},
		"run --timeout 60 b":         {"batch": "b", "timeout": 60.0},
		"stop --force b":             {"batch": "b", "force": true},
		"query --test 2 --timeout 9": {"batch": "batch", "test": 2.0, "timeout": 9.0},
		"stat --timeout 9 c":         {"timeout": 9.0},
		"ping --session --timeout 9": {"timeout": 9.0},
	} {
		asked := map[string]any{}
		path := fakeLnetd(t, func(_ string, r *http.Request) (int, any) {
			if b, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(b, &asked) != nil {
				t.Errorf("%s: asked %q, %v", line, b, err)
			}
			return http.StatusInternalServerError, nil
		})
		p := program{name: lstName, stdout: io.Discard, stderr: io.Discard, socket: path}
		p.run(strings.Fields(line))
		for key, v := range want {
			if asked[key] != v {
				t.Errorf("%s: %s is %v, want %v", line, key, asked[key], v)
			}
		}
	}
}
