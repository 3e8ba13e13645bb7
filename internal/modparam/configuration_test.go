package modparam

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/daemon"
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
	want := `buffers:
    tiny: 1024
global:
    transaction_timeout: 32
    discovery: 0
    drop_asym_route: 1
    retry_count: 3
lnetd:
    networks: "tcp(eth0),tcp1"
    routes: "tcp[8-9] 2 10.0.0.[20-21]@tcp:1; tcp7 10.0.0.1@tcp"
    forwarding: enabled
    accept: all
    port: 7988
    socklnd:
        conns_per_peer: 4
        nagle: 0
        tos: -1
    selftest:
        rpc_timeout: 32
`
	if diff := cmp.Diff(want, string(yaml)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"lustre.conf:5: options lnet: lnetd has no use for config_on_load: it is passed over",
		"lustre.conf:6: options lnet: lnet_retry_count stands in line 6, too: the last holds, as in kernels",
		"lustre.conf:7: options ksocklnd: lnetd has no use for nscheds: it is passed over",
		"lustre.conf:9: options ko2iblnd: lnetd has no ko2iblnd: peer_credits is passed over",
	}, warnings); diff != "" {
		t.Errorf("warnings: -want +got:\n%s", diff)
	}
	if _, err := config.Parse("lustre.conf", yaml, drivers()); err != nil {
		t.Errorf("lnetd does not take it: %v", err)
	}
}

// Every parameter that is passed on is one that lnetd's reader takes.
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
			if _, err := config.Parse("x", yaml, drivers()); err != nil {
				t.Errorf("%s %s: %v in\n%s", module, name, err, yaml)
			}
		}
	}
}

func TestConfigurationTellsWhatIsWrong(t *testing.T) {
	_, _, err := Configuration("lustre.conf", []byte(site+`options lnet ip2nets="tcp 10.0.0"
options lnet accept=some forwarding=yes
options lnet lnet_retry_count=two
options lnet lnet_peer_discovery_disabled=maybe
`))
	if err == nil {
		t.Fatal("taken")
	}
	list := Problems(err)
	if !slices.IsSortedFunc(list, func(a, b *Problem) int { return a.Line - b.Line }) || len(list) != 7 {
		t.Errorf("%d problems, or not in order:\n%v", len(list), err)
	}
	for _, want := range []string{
		"lustre.conf:2: '#' is not NAME=VALUE; a value with blanks stands in quotes",
		`lustre.conf:4: options lnet: ip2nets: "tcp 10.0.0": `,
		`lustre.conf:5: options lnet: accept: 'some' is none of ["secure" "all" "none"]`,
		`lustre.conf:5: options lnet: forwarding: 'yes' is none of ["enabled" "disabled"]`,
		"lustre.conf:6: options lnet: lnet_retry_count: 'two' is not a whole number",
		"lustre.conf:7: options lnet: lnet_peer_discovery_disabled: 'maybe' is not a whole number",
		"lustre.conf:4: options lnet: networks and ip2nets cannot both be set: leave out one of them",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

func drivers() []config.DriverOptions {
	tcp := daemon.TCP(nil)
	return []config.DriverOptions{tcp.DriverOptions}
}
