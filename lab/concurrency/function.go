package main

import (
	_ "embed"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// functionAddress is that of every function, in a network namespace of its own.
const functionAddress = "127.0.0.1:8080"

// emptyPath is that of requests without work.
const emptyPath = "/empty"

// threadsPy is the threaded server; its arguments are the address's port, and the seconds of
// waiting and of cpu.
//
//go:embed threads.py
var threadsPy string

// serve is the function: it answers until its standard input ends, and with it the process
// that started it.
func serve(p *profile) error {
	cputime.Calibrate()
	listener, err := net.Listen("tcp", functionAddress)
	if err != nil {
		return err
	}
	pool := make(chan struct{}, max(1, p.pool))
	mux := http.NewServeMux()
	mux.HandleFunc(emptyPath, func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {
		if p.pool > 0 {
			pool <- struct{}{}
			defer func() { <-pool }()
		}
		var held []byte
		if p.bytes > 0 {
			held = make([]byte, p.bytes)
			for i := 0; i < len(held); i += 4096 {
				held[i] = 1
			}
		}
		if p.wait > 0 {
			<-time.NewTimer(p.wait).C
		}
		cputime.Spend(int64(p.cpu))
		runtime.KeepAlive(held)
	})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(listener)
}
