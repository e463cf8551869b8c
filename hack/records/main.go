// Records measures Sigma against its targets and writes docs/records.md: each
// line is a figure, the peers of the same run, what it must be, what it aims to
// be, and the commands that made it. A target that was missed says so.
//
//	go run ./hack/records              all sections
//	go run ./hack/records small plan   some; the others stay as they are
//
// It runs bin/sigma from the module's root (`make records` builds it) and keeps
// its files in out/records. Public sets are read where SIGMA_DATA points; without
// it their lines are left out and the section says so.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// A section is one part of the page: its lines come from one kind of work.
type section struct {
	name  string // on the command line
	title string
	about string // what was run, in a paragraph
	run   func(*bench) error
}

// sections in the order of the page. Each is a variable of a file of its own.
var sections = []section{
	large,
	optimizers,
	plan,
	bounds,
	workers,
	severalObjectives,
	small,
	public,
	sharing,
	onedim,
}

const (
	page = "docs/records.md"
	head = `# Records

Made by ` + "`make records`" + `: figures on instances, orders and sets that no policy was
trained on, beside peers of the same run. *must* is what the product promises, *aim* is where it wants to
be. Standard errors are over instances. CPU seconds are of one core and include reading the files.
One section: ` + "`go run ./hack/records NAME`" + `.
`
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "records:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	if _, err := os.Stat("bin/sigma"); err != nil {
		return errors.New("there is no bin/sigma: run make records, or make build, in the module's root")
	}
	known := make([]string, len(sections))
	for i, s := range sections {
		known[i] = s.name
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("unknown section %q: there are %s", name, strings.Join(known, ", "))
		}
	}
	for _, s := range sections {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "== %s\n", s.name)
		b, err := newBench(ctx, s)
		if err != nil {
			return err
		}
		if err := s.run(b); err != nil {
			return fmt.Errorf("section %s: %w", s.name, err)
		}
		if err := save(s, b.markdown()); err != nil {
			return err
		}
	}
	return nil
}

// save replaces a section of the page, aside and then renamed.
func save(s section, text string) error {
	old, err := os.ReadFile(page)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	parts := map[string]string{}
	for _, part := range strings.Split(string(old), "\n## ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		parts[title] = strings.TrimRight(body, "\n") + "\n"
	}
	parts[s.title] = text
	var out strings.Builder
	out.WriteString(head)
	reached := map[string]int{}
	for _, body := range parts {
		for _, verdict := range []string{"aim", "must", "**missed**"} {
			reached[verdict] += strings.Count(body, "| "+verdict+" |\n") // the last cell
		}
	}
	fmt.Fprintf(&out, "\nOf %d targets %d are missed; %d reach the aim.\n",
		reached["aim"]+reached["must"]+reached["**missed**"], reached["**missed**"], reached["aim"])
	for _, s := range sections {
		if body, ok := parts[s.title]; ok {
			fmt.Fprintf(&out, "\n## %s\n%s", s.title, body)
		}
	}
	aside := page + ".tmp"
	if err := os.WriteFile(aside, []byte(out.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(aside, filepath.Clean(page))
}
