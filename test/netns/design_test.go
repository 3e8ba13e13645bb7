package netns

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// The scripts type what the Multi-Rail design prints about interfaces, on a host that has those
// interfaces: eth0 to eth3, ib0 and ib1. NS is its namespace.
func TestDesign(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t)
	testenv.NeedCommand(t, "ip", "iproute2")
	name := fmt.Sprintf("%s%d-design", namespaces, os.Getpid())
	namespace.New(t, name)
	for k, cable := range [][2]string{{"eth0", "eth1"}, {"eth2", "eth3"}, {"ib0", "ib1"}} {
		// Interfaces are in the order of their indices.
		namespace.IP(t, "-n", name, "link", "add", cable[0], "index", strconv.Itoa(10+2*k), "type", "veth",
			"peer", "name", cable[1], "index", strconv.Itoa(11+2*k))
	}
	for dev, address := range map[string]string{
		"eth0": "192.184.182.3/24", "eth1": "192.168.184.7/24", "eth2": "10.1.2.3/24", "eth3": "10.1.3.3/24",
		"ib0": "192.168.2.3/24", "ib1": "192.168.2.4/24",
	} {
		namespace.IP(t, "-n", name, "addr", "add", address, "dev", dev)
		namespace.IP(t, "-n", name, "link", "set", dev, "addrgenmode", "none") // errors list the addresses
		namespace.IP(t, "-n", name, "link", "set", dev, "up")
	}
	bin := programsDir(t)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: daemontest.Commands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("NS", name)
			return daemontest.Setup(env)
		},
	})
}
