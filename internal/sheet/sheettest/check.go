// Package sheettest checks pages in tests.
package sheettest

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
)

// link finds text that would make a browser fetch something, or run it.
var link = regexp.MustCompile(`(?i)https?:|//[a-z]|<script[^>]|<link|<img|<iframe|@import|url\(|\son[a-z]+=|src=|href=`)

// data are JSON, which runs nothing and may hold any text.
var data = regexp.MustCompile(`<script type="application/json" id="sigma-data">[^<]*</script>`)

// script is that of all pages.
var script = regexp.MustCompile(`(?s)<script>\n"use strict";.*</script>`)

// Check fails unless a page without its script fetches and runs nothing, holds no NaN or
// infinite figure, closes elements in order, has no id twice, and has a title and a
// description for every plot.
func Check(t *testing.T, page string) {
	t.Helper()
	if len(script.FindAllString(page, -1)) != 1 {
		t.Error("the page has no script, or two")
	}
	page = script.ReplaceAllString(page, "")
	if found := link.FindString(data.ReplaceAllString(page, "")); found != "" {
		t.Errorf("the page holds %q", found)
	}
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "&lt;svg", "%!"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	wellFormed(t, page)
}

func wellFormed(t *testing.T, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict = false
	d.AutoClose = xml.HTMLAutoClose
	d.Entity = xml.HTMLEntity
	ids := map[string]bool{}
	var labels, stack []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			stack = append(stack, token.Name.Local)
			for _, a := range token.Attr {
				if a.Name.Local == "id" && ids[a.Value] {
					t.Errorf("id %q twice", a.Value)
				} else if a.Name.Local == "id" {
					ids[a.Value] = true
				}
				if a.Name.Local == "aria-labelledby" {
					labels = append(labels, strings.Fields(a.Value)...)
				}
			}
		case xml.EndElement:
			if len(stack) == 0 || stack[len(stack)-1] != token.Name.Local {
				t.Fatalf("</%s> closes %v", token.Name.Local, stack)
			}
			stack = stack[:len(stack)-1]
		}
	}
	if len(stack) > 0 {
		t.Errorf("left open: %v", stack)
	}
	for _, l := range labels {
		if !ids[l] {
			t.Errorf("aria-labelledby %q has no such element", l)
		}
	}
}
