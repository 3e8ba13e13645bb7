package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// o2ib holds what the Driver for RDMA depends on, so that tests can replace it.
type o2ib struct {
	host hostnet.Host // provides the network devices
	// open opens RDMA for this process. The caller must close the provider.
	open func() (verbs.Provider, error)
	// privileged reports whether this process may use ports below 1024.
	privileged func() bool
	rdma       *hostnet.RDMA // lists the RDMA devices of the host
}

// O2IB returns the driver for LNet over RDMA. It uses the network devices of host. The function open
// opens RDMA for this process.
func O2IB(host hostnet.Host, open func() (verbs.Provider, error)) Driver {
	o := &o2ib{host: host, open: open, privileged: mayUsePrivilegedPorts, rdma: hostnet.NewRDMA()}
	return o.driver()
}

func (o *o2ib) driver() Driver {
	return Driver{
		DriverOptions: config.DriverOptions{
			Table: o2iblnd.Table(),
			Check: func(v config.Values) error {
				c := o2ibConfig(v)
				return c.Validate()
			},
		},
		Name:     "RDMA",
		Make:     o.make,
		Explain:  o2ibExplain,
		Defaults: o2ibDefaults,
		Usable:   o.usable,
		BuiltIn:  o.builtIn,
		Watch:    o.watch,
	}
}

// o2ibConfig returns the default configuration of the driver with the options v set in it.
func o2ibConfig(v config.Values) o2iblnd.Config {
	c := o2iblnd.DefaultConfig()
	v.Set(o2iblnd.Table(), c.Set)
	return c
}

// builtIn reports whether this lnetd was built with RDMA.
func (o *o2ib) builtIn() bool {
	p, err := o.open()
	if err == nil {
		_ = p.Close()
	}
	return !errors.Is(err, verbs.ErrNotBuilt)
}

func (o *o2ib) make(v config.Values, log *slog.Logger) (Made, error) {
	c := o2ibConfig(v)
	if _, given := v["use_privileged_port"]; !given && !o.privileged() {
		c.UsePrivilegedPort = false
		log.Info("no permission to use privileged ports: connecting with use_privileged_port=0; nodes with require_privileged_port=1 refuse these connections")
	}
	p, err := o.open()
	if err != nil {
		return Made{}, err
	}
	c.Provider, c.Host, c.Logger = p, o.host, log
	d, err := o2iblnd.New(c)
	if err != nil {
		return Made{}, errors.Join(err, p.Close())
	}
	return Made{
		Driver: d,
		Close:  func() error { return errors.Join(d.Close(), p.Close()) },
		Attrs:  []any{"service", c.Service},
	}, nil
}

// o2ibDefaults returns the tunables and options of an NI without own settings if its driver has the
// options v.
func o2ibDefaults(v config.Values) (lnd.Tunables, lnd.Values) {
	c := o2ibConfig(v)
	return c.Tunables, c.Values()
}

// o2ibExplain returns the error for an operator if a port is not available or memory cannot be
// locked. It returns nil for other errors.
func o2ibExplain(err error) error {
	f := api.Fault{Code: api.CodeInterface}
	var listen *lnd.ListenError
	switch {
	case errors.Is(err, verbs.ErrLocked):
		f.Errno, f.Text = -int(syscall.ENOMEM), "memory cannot be registered with the RDMA device"
	case !errors.As(err, &listen):
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		f.Code, f.Errno = api.CodePortInUse, -int(syscall.EADDRINUSE)
		f.Text = fmt.Sprintf("RDMA port %s is in use", listen.Addr)
		f.Remedy = `find the owner of the port with "rdma resource show cm_id", or unload LNet over RDMA of the kernel (module ko2iblnd)`
	case errors.Is(err, syscall.EACCES):
		f.Code, f.Errno = api.CodePortForbidden, -int(syscall.EACCES)
		f.Text = fmt.Sprintf("no permission to listen on RDMA port %s", listen.Addr)
		f.Remedy = "run as root or give lnetd the capability CAP_NET_BIND_SERVICE; " +
			`or set another port in "service" of the section "o2iblnd", on all nodes of the net`
	default:
		return nil
	}
	return f.Because(err)
}
