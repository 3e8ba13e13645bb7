package main

// manPage is the template of the help of lnetd.
const manPage = `NAME
    lnetd - {{.Short}}

SYNOPSIS
    lnetd [OPTIONS]

DESCRIPTION
    lnetd joins LNet networks over TCP, answers pings, and is shown and tested
    with lnetdctl. It runs in the foreground until SIGTERM or SIGINT, which end
    it in good order; a second signal ends it at once.

    Without --net and without nets in the configuration it takes "tcp" on the
    first usable interface, or, if there is none, on the loopback interface.
    Without the right to listen on port 988 and without --port it listens on,
    and calls, port 9988; kernel nodes then cannot call it.

    The configuration is what Lustre's "lnetctl export" prints, plus a section
    "lnetd"; --print-reference-config shows every key. It names nets, peers,
    routes, policies, the global values, whether the node is a router, and
    whether it takes part in LNet selftest. What it names is there when lnetd is
    ready; a route by a gateway that no net of this node leads to is left out
    with a warning, everything else that cannot be done ends lnetd. Options on
    the command line override the file.

OPTIONS
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}

SIGNALS
    SIGTERM, SIGINT  close connections and end, a router when what is under
                     way has passed, 10 s at most; again: end at once
    SIGHUP           read the configuration file once more and change what is
                     different; what is not is not disturbed. With errors, or if
                     something cannot be, all stays as it was. What needs a
                     restart is logged, and so are errors in the file of
                     --web.config.file, which holds without that. systemd hears of the reload: with
                     Type=notify-reload "systemctl reload" waits for its end

FILES
    /run/lnetd/control.sock                 control socket of root's lnetd
    $XDG_RUNTIME_DIR/lnetd/control.sock     of another user's
    /tmp/lnetd-UID/control.sock             the same without XDG_RUNTIME_DIR
    PATH.lock                               beside each socket: its owner's lock

EXIT STATUS
    0       ended by a signal, in good order
    1       could not do its work: a port or the control socket is another's,
            an interface is missing, ...
    2       the command line or the configuration has errors
    128+N   ended at once by a second signal, number N

`
