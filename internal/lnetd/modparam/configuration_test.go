package modparam

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
)

const site = `# /etc/modprobe.d/lustre.conf
options lnet networks="tcp(eth0),tcp1" \
	routes="tcp[8-9] 2 10.0.0.[20-21]@tcp:1" # not seen: this is no comment
`

// Parameters become keys.
//
// lnetctl 13 (4)
func TestConfiguration(t *testing.T) {
	yaml, warnings, err := Configuration("lustre.conf", []byte(`# of the site
options lnet networks="tcp(eth0),tcp1" routes="tcp[8-9] 2 10.0.0.[20-21]@tcp:1; tcp7 10.0.0.1@tcp"
options lnet forwarding=enabled tiny_router_buffers=1024 lnet_transaction_timeout=0x20
options lnet lnet_peer_discovery_disabled=1 lnet_drop_asym_route=Y accept="all" accept_port=7988
options lnet "ip2nets=" config_on_load=1
options lnet lnet_retry_count=1 lnet_retry_count=3
options ksocklnd conns_per_peer=4 nagle=0 nscheds=6 tos=-1
options lnet_selftest rpc-timeout=32
options ko2iblnd peer_credits=32
options usbcore nousb
options mdt mds_num_threads=4
alias net-pf-10 off
`))
	if err != nil {
		t.Fatal(err)
	}
	want := `

--- {buffers: {tiny: 1024}, global: {transaction_timeout: 32}, lnetd: {forwarding: enabled}}
--- {global: {discovery: 0, drop_asym_route: 1}, lnetd: {accept: all, port: 7988}}

--- {global: {retry_count: 3}}
--- {lnetd: {socklnd: {conns_per_peer: 4, nagle: 0, tos: -1}}}
--- {lnetd: {selftest: {rpc_timeout: 32}}}
--- {lnetd: {o2iblnd: {peer_credits: 32}}}
`
	want = strings.Replace(want, "\n\n", "\n"+`--- {lnetd: {networks: "tcp(eth0),tcp1", routes: "tcp[8-9] 2 10.0.0.[20-21]@tcp:1; tcp7 10.0.0.1@tcp"}}`+"\n", 1)
	if diff := cmp.Diff(want, string(yaml)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"lustre.conf:5: warning: options lnet: ignoring config_on_load, which lnetd does not use",
		"lustre.conf:6: warning: options lnet: lnet_retry_count is also in line 6: the last one applies, as in kernels",
		"lustre.conf:7: warning: options ksocklnd: ignoring nscheds, which lnetd does not use",
	}, lines(warnings)); diff != "" {
		t.Errorf("warnings: -want +got:\n%s", diff)
	}
	if _, err := config.Parse("lustre.conf", yaml, tables()); err != nil {
		t.Errorf("lnetd does not take it: %v", err)
	}
}

func lines(p Problems) []string {
	if len(p) == 0 {
		return nil
	}
	return strings.Split(p.Error(), "\n")
}

// lnetd's parser accepts every parameter that is passed on.
func TestEveryParameterIsTaken(t *testing.T) {
	values := map[string]string{
		"networks": "tcp(eth0)", "ip2nets": "tcp 10.0.0.*", "routes": "tcp9 10.0.0.1@tcp", "accept": "all", "forwarding": "disabled",
		"lnet_interfaces_max": "16", "lnet_retry_count": "2", "lnet_transaction_timeout": "50", "max_reconnectms": "60000",
	}
	for module, all := range modules {
		for name := range all {
			value, ok := values[name]
			if !ok {
				value = "1"
			}
			yaml, warnings, err := Configuration("x", []byte("options "+module+" "+name+"=\""+value+"\""))
			if err != nil || len(warnings) > 0 || len(yaml) == 0 {
				t.Errorf("%s %s: %q %q %v", module, name, yaml, warnings, err)
				continue
			}
			if _, err := config.Parse("x", yaml, tables()); err != nil {
				t.Errorf("%s %s: %v in\n%s", module, name, err, yaml)
			}
		}
	}
}

// All mistakes are reported at once, with their lines, together with the warnings.
func TestConfigurationTellsWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"values", site + `options lnet ip2nets="tcp 10.0.0"
options lnet accept=some forwarding=yes large_router_buffers=-5
options lnet lnet_retry_count=two lnet_transaction_timeout=1_0
options lnet lnet_peer_discovery_disabled=maybe config_on_load=1
`, []string{
			"lustre.conf:2: '#' is not of the form NAME=VALUE; put quotes around a value with spaces",
			`lustre.conf:4: options lnet: ip2nets: "tcp 10.0.0": `,
			`lustre.conf:5: options lnet: accept: 'some' is not one of ["secure" "all" "none"]`,
			`lustre.conf:5: options lnet: forwarding: 'yes' is not one of ["enabled" "disabled"]`,
			"lustre.conf:5: options lnet: large_router_buffers: -5 is not in 0 to 1048576",
			"lustre.conf:6: options lnet: lnet_retry_count: 'two' is not a whole number",
			"lustre.conf:6: options lnet: lnet_transaction_timeout: '1_0' is not a whole number",
			"lustre.conf:7: options lnet: lnet_peer_discovery_disabled: 'maybe' is not a whole number",
			"lustre.conf:7: warning: options lnet: ignoring config_on_load, which lnetd does not use",
		}},
		{"both strings", "options lnet networks=tcp\noptions lnet ip2nets=\"tcp 10.0.0.*\"\n", []string{
			"lustre.conf:2: options lnet: networks and ip2nets cannot both be set: leave out one of them",
		}},
		{"misspelled names", `options lnet network=tcp
options ksocknld credits=32
options o2iblnd credits=32
options lnet credits=256 ip2net="tcp 10.0.0.*"
options ksocklnd networks=tcp frobnicate=1 peer_credit=8
options ko2iblnd-opa peer_credits=32
options lnet accept=all
options kgnilnd credits=9
`, []string{
			"lustre.conf:1: options lnet: unknown parameter 'network'; did you mean 'networks'?",
			"lustre.conf:2: options ksocknld: unknown module 'ksocknld'; did you mean 'ksocklnd'?",
			"lustre.conf:3: options o2iblnd: unknown module 'o2iblnd'; did you mean 'ko2iblnd'?",
			"lustre.conf:4: options lnet: unknown parameter 'credits'; it belongs to ko2iblnd and ksocklnd: write 'options ko2iblnd credits=...'",
			"lustre.conf:4: options lnet: unknown parameter 'ip2net'; did you mean 'ip2nets'?",
			"lustre.conf:5: options ksocklnd: unknown parameter 'networks'; it belongs to lnet: write 'options lnet networks=...'",
			"lustre.conf:5: options ksocklnd: unknown parameter 'peer_credit'; did you mean 'peer_credits'?",
			"lustre.conf:5: warning: options ksocklnd: ignoring the unknown parameter 'frobnicate'",
			"lustre.conf:6: warning: options ko2iblnd_opa: lnetd has no ko2iblnd_opa; ignoring peer_credits; for nets of type o2ib, write 'options ko2iblnd ...'",
			"lustre.conf:8: warning: options kgnilnd: lnetd has no kgnilnd; ignoring credits",
		}},
		{"nothing for lnetd", "options usbcore nousb\noptions mdt x=1\nalias ko2iblnd-opa ko2iblnd\noptions ko2iblnd-opa credits=1024\n", []string{
			"lustre.conf: the file has no option that lnetd uses; lnetd reads options such as 'options lnet networks=\"tcp(eth0)\"'",
			"lustre.conf:4: warning: options ko2iblnd_opa: lnetd has no ko2iblnd_opa; ",
		}},
		{"an empty file", "", []string{"lustre.conf: the file has no option that lnetd uses"}},
		{"no use for any of it", "options lnet config_on_load=1", []string{
			"lustre.conf: the file has no option that lnetd uses", "lustre.conf:1: warning: options lnet: ignoring config_on_load",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, warnings, err := Configuration("lustre.conf", []byte(tt.text))
			var all Problems
			if !errors.As(err, &all) || len(warnings) > 0 {
				t.Fatalf("%v, %v", warnings, err)
			}
			got := lines(all)
			for k := range min(len(got), len(tt.want)) {
				if !strings.HasPrefix(got[k], tt.want[k]) {
					t.Errorf("got  %s\nwant %s", got[k], tt.want[k])
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("%d problems, want %d:\n%v", len(got), len(tt.want), err)
			}
		})
	}
}

// A text with very many mistakes reports only the first ones.
func TestProblemsAreBounded(t *testing.T) {
	text := strings.Repeat("options lnet network=tcp zc=1\n", 5000) + "options lnet " + strings.Repeat("x", 1<<20)
	_, _, err := Configuration("x", []byte(text))
	var all Problems
	if !errors.As(err, &all) || len(all) != 2*problemsMax+1 {
		t.Fatalf("%d problems", len(all))
	}
	if got, want := all[len(all)-1].Error(), "x: ... and 9801 more; correct these first"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, _, err = Convert(routesFile(strings.Repeat("x", 1<<20)), 0)
	if n := len(err.Error()); n > 2*longestText {
		t.Errorf("a problem of %d bytes", n)
	}
}

// Messages about the document that stands for a file apply to the lines of the file.
func TestLinesOfTheFile(t *testing.T) {
	const text = "# of the site\noptions lnet \\\n  networks=tcp(eth0)\noptions ksocklnd conns_per_peer=200\n\noptions lnet lnet_health_sensitivity=5000 routes=\"tcp9 10.0.0.1@tcp\"\n"
	yaml, _, err := Configuration("lustre.conf", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	_, err = config.Parse("lustre.conf", yaml, tables())
	var all config.Problems
	if !errors.As(err, &all) || len(all) != 2 {
		t.Fatal(err)
	}
	for k, want := range []string{"4 options ksocklnd conns_per_peer", "6 options lnet lnet_health_sensitivity"} {
		if got := fmt.Sprint(all[k].Line, " ", Option(all[k].Key)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	c, _ := config.Parse("lustre.conf", []byte(strings.NewReplacer("200", "2", "5000", "50").Replace(string(yaml))), tables())
	for _, at := range []string{c.NIs[0].Where, c.Site.Routes[0].Where} {
		if at != "lustre.conf:2: lnetd.networks" && at != "lustre.conf:6: lnetd.routes" {
			t.Error(at)
		}
	}
}

// Buffer pools on several lines form one section, which replaces an earlier one.
func TestBuffersInSeveralLines(t *testing.T) {
	yaml, _, err := Configuration("x", []byte("options lnet tiny_router_buffers=600\noptions lnet accept=all\noptions lnet large_router_buffers=0x100\n"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("x", yaml, tables())
	if err != nil || c.Buffers.Tiny != 600 || c.Buffers.Small != 0 || c.Buffers.Large != 256 {
		t.Errorf("%+v, %v", c.Buffers, err)
	}
	if _, err := config.Parse("x", fmt.Appendf(nil, "buffers: {tiny: %d}", buffersMax+1), tables()); err == nil {
		t.Error("lnetd takes larger pools")
	}
}

func tables() []config.DriverOptions { return daemon.AllDrivers().Options() }
