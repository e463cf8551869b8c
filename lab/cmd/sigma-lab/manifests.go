package main

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/plugins/manifest"
)

// manifests counts the objects of public manifests by their treatment in a plan.
func (p *program) manifests() *cobra.Command {
	return &cobra.Command{
		Use: "manifests NAME=FOLDER…", Short: "Counts what sigma plan --manifests makes of folders of manifests",
		Args: cobra.MinimumNArgs(1),
		RunE: p.run(func(_ *cobra.Command, args []string) error {
			page := records.NewPage("What a plan makes of public manifests")
			page.Text(`Each object of these folders, read as ` + "`sigma plan --manifests`" + ` reads it, and each alone: *planned*, a node or rule that is *used*, *left out* with a reason, of a
kind that has *no pods*, *not known* whether it makes pods, or *refused*: a plan ends there, with file, document and field. Every object is in one column.
Not objects are templates of charts, values, and documents of other programs.`)
			var all manifest.Survey
			sources := records.Table{Heads: append([]string{"source", "files", "documents", "objects"}, heads...), Right: numbers(1, 3+len(heads))}
			for _, arg := range args {
				name, folder, ok := strings.Cut(arg, "=")
				if !ok {
					name, folder = filepath.Base(arg), arg
				}
				var one manifest.Survey
				if err := one.Add(folder); err != nil {
					return err
				}
				if err := all.Add(folder); err != nil {
					return err
				}
				sources.Rows = append(sources.Rows, sourceRow(name, &one))
			}
			sources.Rows = append(sources.Rows, sourceRow("all", &all))
			page.Table(sources)
			page.Heading("By kind")
			kinds := records.Table{Heads: append([]string{"kind"}, heads...), Right: numbers(1, len(heads))}
			for _, name := range slices.Sorted(maps.Keys(all.Kinds)) {
				kinds.Rows = append(kinds.Rows, append([]string{name}, cells(all.Kinds[name])...))
			}
			page.Table(kinds)
			page.Heading("Why objects are refused")
			reasons := records.Table{Heads: []string{"reason", "objects"}, Right: []int{1}}
			byNumber := func(a, b string) int { return cmp.Or(all.Refused[b]-all.Refused[a], strings.Compare(a, b)) }
			for i, reason := range slices.SortedFunc(maps.Keys(all.Refused), byNumber) {
				if i == mostReasons {
					page.Text(fmt.Sprintf("The first %d of %d reasons.", mostReasons, len(all.Refused)))
					break
				}
				text, _, _ := strings.Cut(reason, " (e.g.") // and a regular expression
				reasons.Rows = append(reasons.Rows, []string{"`" + strings.ReplaceAll(text, "|", "/") + "`", strconv.Itoa(all.Refused[reason])})
			}
			page.Table(reasons)
			page.Text("`make manifest-table` writes this page; `MANIFESTS='NAME=FOLDER …'` takes others. Nothing of the manifests is in this tree.")
			return page.Save(filepath.Join(p.docs, "results", "manifests.md"))
		}),
	}
}

const mostReasons = 20

// heads are the columns of a [manifest.Kind].
var heads = []string{"planned", "used", "no pods", "left out", "not known", "refused"}

func cells(k *manifest.Kind) (list []string) {
	for _, n := range []int{k.Planned, k.Used, k.NoPods, k.LeftOut, k.NotKnown, k.Refused} {
		list = append(list, strconv.Itoa(n))
	}
	return list
}

func sourceRow(name string, v *manifest.Survey) []string {
	sum := manifest.Kind{}
	for _, k := range v.Kinds {
		sum.Planned, sum.Used, sum.NoPods = sum.Planned+k.Planned, sum.Used+k.Used, sum.NoPods+k.NoPods
		sum.LeftOut, sum.NotKnown, sum.Refused = sum.LeftOut+k.LeftOut, sum.NotKnown+k.NotKnown, sum.Refused+k.Refused
	}
	return append([]string{name, strconv.Itoa(v.Files), strconv.Itoa(v.Documents), strconv.Itoa(v.Objects)}, cells(&sum)...)
}

// numbers are the columns from one to another.
func numbers(from, to int) (list []int) {
	for i := from; i <= to; i++ {
		list = append(list, i)
	}
	return list
}
