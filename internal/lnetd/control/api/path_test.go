package api

import "testing"

func TestRunDir(t *testing.T) {
	tests := []struct {
		uid  int
		xdg  string
		want string
	}{
		{0, "/run/user/0", "/run/lnetd"},
		{1000, "/run/user/1000", "/run/user/1000/lnetd"},
		{1000, "", "/tmp/lnetd-1000"},
		{1000, "relative", "/tmp/lnetd-1000"},
	}
	for _, tt := range tests {
		if got := runDir(tt.uid, tt.xdg, "/tmp"); got != tt.want {
			t.Errorf("runDir(%d, %q) = %s, want %s", tt.uid, tt.xdg, got, tt.want)
		}
	}
}
