package api

import "testing"

func TestProcessString(t *testing.T) {
	tests := []struct {
		p    Process
		want string
	}{
		{Process{PID: 7, UID: -1}, "pid 7"},
		{Process{PID: 7, UID: 0, Command: "lnetd --port 1"}, `pid 7, uid 0, "lnetd --port 1"`},
		{Process{PID: 7, UID: 5, Program: "lnetd", Version: "v1"}, "pid 7, lnetd v1, uid 5"},
		{Process{}, "a process that is not visible from here (another PID namespace, or no permission to see it)"},
	}
	for _, tt := range tests {
		if got := tt.p.String(); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.p, got, tt.want)
		}
	}
}
