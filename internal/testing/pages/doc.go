// Package pages runs the commands of Markdown pages, so that documentation is tried out as a reader would.
//
// Every block of commands of a page has a marker, a comment that the rendered page does not show:
//
//	<!-- hosts: a eth0=10.0.0.1, b eth0=10.0.0.2 -->    network namespaces for the blocks that follow
//	<!-- machines: a eth0=10.0.0.1, b eth0=10.0.0.2 --> the same, but each is a fresh Debian with systemd
//	<!-- run a b -->               run the next block on hosts a and b; without a name, on this host
//	<!-- run a, status 1 -->       the last command ends with this exit status; all others with 0
//	<!-- run a, except x y -->     leave out the commands of programs x and y, which a test does not have
//	<!-- given a: COMMANDS -->     commands that the page does not show, such as a fault
//	<!-- file a: PATH -->          write the next block to a file
//	<!-- prints -->                the next block is the output of the last commands; "..." is any text
//	<!-- not run: REASON -->       the next block cannot be run in a test
//
// Blocks of commands are indented, or fenced with the language sh. Parse does no I/O.
//
// Parts of a page may be generated, such as tables; WithParts replaces them.
package pages
