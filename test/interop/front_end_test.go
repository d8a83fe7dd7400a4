// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/refwatch/refwatch/test/network"
)

// frontEnd is a proxy that ends TLS and HTTP/2 in front of an API server.
type frontEnd struct {
	name  string
	start func(t *testing.T, o frontEndOptions) *running
}

// frontEndOptions are those that both front ends have. Zero is the front end's default.
type frontEndOptions struct {
	backend string // its address
	tls     bool   // whether the backend wants TLS
	streams string // how many streams a connection may have
	buffers bool   // whether nginx buffers answers
	global  string // lines of the configuration that one case needs: of the program,
	server  string // and of the server in it
}

// running is a front end that runs.
type running struct {
	address string
	// reload lets a new process take over. It returns when the old one takes no more connections.
	reload func()
	// waitForOld waits until the old process has ended, which it does when its last stream has.
	waitForOld func()
}

var frontEnds = []frontEnd{{"nginx", startNginx}, {"HAProxy", startHAProxy}}

const nginxConfig = `
daemon off;
worker_processes 1;
pid DIR/nginx.pid;
error_log stderr notice;
GLOBAL
events { worker_connections 8192; }
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	server {
		listen ADDRESS ssl http2;
		ssl_certificate DIR/tls.crt;
		ssl_certificate_key DIR/tls.key;
		http2_max_concurrent_streams STREAMS;
		SERVER
		location / {
			proxy_pass SCHEME://BACKEND;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_buffering BUFFERING;
		}
	}
}
`

func startNginx(t *testing.T, o frontEndOptions) *running {
	t.Helper()
	address, dir, file := configure(t, nginxConfig, o)
	p := startProgram(t, "nginx", "-e", "stderr", "-p", dir, "-c", file)
	started := 1
	p.wait("start worker process ", started)
	return &running{address: address, reload: func() {
		p.Helper()
		started++
		p.signal(syscall.SIGHUP)
		p.wait("start worker process ", started)
		p.wait("gracefully shutting down", started-1)
	}, waitForOld: func() {
		p.Helper()
		p.wait("exited with code", started-1)
	}}
}

const haproxyConfig = `
global
	maxconn 8192
	tune.h2.max-concurrent-streams STREAMS
	stats socket unix@haproxy.sock mode 600 level admin expose-fd listeners
	GLOBAL
defaults
	mode http
	timeout connect 10s
	timeout client 1h
	timeout server 1h
	option abortonclose
	SERVER
frontend front
	bind ADDRESS ssl crt DIR/tls.pem alpn h2,http/1.1
	default_backend back
backend back
	server one BACKEND SCHEME
`

func startHAProxy(t *testing.T, o frontEndOptions) *running {
	t.Helper()
	address, dir, file := configure(t, haproxyConfig, o)
	p := startProgram(t, "haproxy", "-Ws", "-C", dir, "-f", file)
	loaded := 1
	p.wait("READY=1", loaded)
	return &running{address: address, reload: func() {
		p.Helper()
		loaded++
		p.signal(syscall.SIGUSR2)
		p.wait("READY=1", loaded)
		p.wait("Proxy front stopped", loaded-1)
	}, waitForOld: func() {
		p.Helper()
		p.wait("Former worker", loaded-1)
	}}
}

// configure writes a front end's files into a folder of their own.
func configure(t *testing.T, config string, o frontEndOptions) (address, dir, file string) {
	t.Helper()
	dir = t.TempDir()
	writeCertificate(t, dir)
	address, err := network.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	scheme := map[bool]string{false: "http", true: "https"}[o.tls]
	if config == haproxyConfig {
		scheme = map[bool]string{false: "", true: "ssl verify none alpn h2"}[o.tls]
	}
	if o.streams == "" {
		o.streams = "100"
	}
	buffering := map[bool]string{false: "off", true: "on"}[o.buffers]
	config = strings.NewReplacer("DIR", dir, "ADDRESS", address, "BACKEND", o.backend, "SCHEME", scheme,
		"STREAMS", o.streams, "BUFFERING", buffering, "GLOBAL", o.global, "SERVER", o.server).Replace(config)
	file = filepath.Join(dir, "front-end.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return address, dir, file
}
