package main

// manPage is the template of the help of lnetd.
const manPage = `NAME
    lnetd - {{.Short}}

SYNOPSIS
    lnetd [OPTIONS]

DESCRIPTION
    lnetd runs an LNet node that other nodes reach over TCP. lnetdctl shows and
    changes it. lnetd runs in the foreground until SIGTERM or SIGINT, which shut
    it down cleanly; a second signal ends it at once.

    Without --net and without nets in the configuration, lnetd configures "tcp"
    on the first usable interface, or, if there is none, on the loopback
    interface. If it may not listen on port 988 and --port is not given, it
    listens on port 9988 and connects to that port of peers; kernel nodes then
    cannot connect to it.

    The configuration file has the format of Lustre's "lnetctl export", plus a
    section "lnetd"; --print-reference-config prints all keys. It contains nets,
    peers, routes, policies, global parameters, whether the node is a router, and
    whether LNet selftest is enabled. All of this is configured when lnetd reports
    that it is ready. A route whose gateway is not on a net of this node is left
    out with a warning; any other step that fails ends lnetd. Options on the
    command line override the file.

OPTIONS
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}

SIGNALS
    SIGTERM, SIGINT  close connections and exit; a router first forwards messages
                     in transit, for at most 10 s. A second signal: exit at once
    SIGHUP           reload the configuration file and apply the differences;
                     unchanged objects are not disturbed. If the file has errors,
                     or a change fails, nothing is changed. Changes that need a
                     restart are logged. The file of --web.config.file applies
                     without a reload; its errors are logged too. With
                     Type=notify-reload, "systemctl reload" waits until the
                     reload is complete

FILES
    /run/lnetd/control.sock                 control socket of lnetd run by root
    $XDG_RUNTIME_DIR/lnetd/control.sock     control socket of other users
    /tmp/lnetd-UID/control.sock             the same without XDG_RUNTIME_DIR
    PATH.lock                               lock file of the socket PATH

EXIT STATUS
    0       shut down cleanly by a signal
    1       lnetd could not run: a port or the control socket is in use, an
            interface is missing, ...
    2       the command line or the configuration has errors
    128+N   ended at once by a second signal, number N

`
