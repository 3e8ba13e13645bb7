package fuzz

import (
	"errors"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
	"github.com/lnetd/lnetd/internal/lnetd/modparam"
)

// FuzzModparam parses module parameters of every kind. The result must be YAML that lnetd can parse,
// without unknown keys. Errors must name a line.
func FuzzModparam(f *testing.F) {
	addTexts(f,
		"tcp0(eth0,eth1) 10.0.0.*; o2ib0 192.168.[1-2].*", "routes='tcp0 1 10.0.0.1@o2ib0'", "tcp *.*.*.*", "networks=tcp0(eth0[1],eth1)[2-3]",
		`options lnet 'ip2nets="tcp0 10.0.0.*" routes="tcp0 1 10.0.0.2@o2ib0"'`, "tcp7: { gateway: 10.3.3.[6-12]@tcp, priority: 20, hop: 8 }",
		"options lnet networks=tcp \\\n forwarding=enabled\n# x\noptions ksocklnd credits=512 nagle=0\noptions lnet lnet_retry_count=1",
		"options lnet \"networks=tcp\nalias a b", "tcp1 [10,12]@gni:3", "options lnet ip2nets=''", "tcp 2001:db8::1@tcp", "<200:1>", "tcp\\x00(\")",
	)
	drivers := daemon.AllDrivers().Options()
	f.Fuzz(func(t *testing.T, s string) {
		for _, kind := range []modparam.Kind{modparam.Modprobe, modparam.IP2Nets, modparam.Routes, modparam.Networks, modparam.Mixed} {
			yaml, _, err := modparam.Convert([]modparam.Text{{Name: "fuzz", Kind: kind, Data: []byte(s)}}, 0)
			checkModparam(t, s, yaml, err, drivers)
		}
		yaml, _, err := modparam.Configuration("fuzz", []byte(s))
		if err != nil { // yaml has the rest
			checkModparam(t, s, yaml, nil, drivers)
			yaml = nil
		}
		checkModparam(t, s, yaml, err, drivers)
	})
}

func checkModparam(t *testing.T, s string, yaml []byte, err error, drivers []config.DriverOptions) {
	t.Helper()
	if err != nil {
		var all modparam.Problems
		switch {
		case yaml != nil:
			t.Fatalf("%q: %q beside %v", s, yaml, err)
		case errors.Is(err, modparam.ErrNoData):
		case !errors.As(err, &all):
			t.Fatalf("%q: no problems: %v", s, err)
		}
		for _, p := range all {
			if ofAll := strings.Contains(p.Text, "has no option that lnetd uses") || strings.HasPrefix(p.Text, "... and"); p.Line < 1 && !ofAll || p.Line > strings.Count(s, "\n")+1 {
				t.Fatalf("%q: no line: %v", s, p)
			}
		}
		return
	}
	// Values may be out of lnetd's range, but the syntax must be valid.
	if _, err := config.Parse("fuzz", yaml, drivers); err != nil {
		for _, form := range []string{"yaml:", "unknown key", "invalid key", "is not a mapping", "is not a list"} {
			if strings.Contains(err.Error(), form) {
				t.Fatalf("%q gives\n%s\n%v", s, yaml, err)
			}
		}
	}
}
