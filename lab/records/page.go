package records

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

// A Page is the text of one section.
type Page struct{ b strings.Builder }

// NewPage begins a page with its title.
func NewPage(title string) *Page {
	p := &Page{}
	fmt.Fprintf(&p.b, "# %s\n", title)
	return p
}

// Heading begins a part of the page.
func (p *Page) Heading(text string) { fmt.Fprintf(&p.b, "\n## %s\n", text) }

// Text adds a paragraph; an empty one is left out.
func (p *Page) Text(text string) {
	if text = strings.TrimSpace(text); text != "" {
		fmt.Fprintf(&p.b, "\n%s\n", text)
	}
}

// Table adds a table; one without rows is left out.
func (p *Page) Table(t Table) {
	if len(t.Rows) > 0 {
		p.b.WriteString("\n" + t.Markdown())
	}
}

// List adds a list.
func (p *Page) List(items []string) {
	for i, item := range items {
		if i == 0 {
			p.b.WriteByte('\n')
		}
		fmt.Fprintf(&p.b, "- %s\n", item)
	}
}

// Commands ends a page with what made it, and the version that was measured.
func (p *Page) Commands(seconds float64, maker, version string, commands []string) {
	fmt.Fprintf(&p.b, "\n%.0f CPU-seconds, `%s`, %s:\n", seconds, maker, version)
	p.Code(commands)
}

// Code adds lines of code.
func (p *Page) Code(lines []string) {
	fmt.Fprintf(&p.b, "\n```\n%s\n```\n", strings.Join(lines, "\n"))
}

// String is the page as Markdown.
func (p *Page) String() string { return p.b.String() }

// Save replaces a page whole: an interrupted run leaves the old one.
func (p *Page) Save(path string) error { return Replace(path, p.String()) }

// Insert replaces what stands on a page between the lines "<!-- name -->" and
// "<!-- end of name -->".
func Insert(path, name, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	first, last := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(string(old), first)
	_, after, ends := strings.Cut(rest, last)
	if !ok || !ends {
		return fmt.Errorf("%s: want a line %q and after it %q", path, strings.TrimSpace(first), strings.TrimSpace(last))
	}
	return Replace(path, before+first+"\n"+strings.TrimSpace(text)+"\n\n"+last+after)
}

// Replace replaces a file whole, and makes its folder.
func Replace(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}
