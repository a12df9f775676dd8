"""Audit log: one JSON line for each call that was admitted, refused, failed or cancelled.

A record has no argument values except a refused path. The file belongs to the hub's user alone
(mode 0600) and is rotated by size. Writing must never delay or fail a call: records are queued for
a thread, and dropped and counted if the disk is too slow.

This package does not decide anything: it gets a verdict from `guard` and writes it down. When a
record is made is up to `calls`.

Main types: `AuditRecord` (one line), `AuditSink` (the interface that callers use), `NoAudit`.
`audit_log` opens the file.

Reading order: `log_file` (records, queue, thread and rotation), `open_file` (which files are
accepted).
"""
