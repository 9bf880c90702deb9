CREATE OR REPLACE FUNCTION dpmcmc_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'integrity_constraint_violation'; END $$;
CREATE TABLE dpmcmc_versions (
	version INTEGER NOT NULL,
	made_at TEXT NOT NULL,
	PRIMARY KEY (version)
);
CREATE TRIGGER dpmcmc_versions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dpmcmc_versions FOR EACH STATEMENT EXECUTE FUNCTION dpmcmc_append_only();
CREATE TABLE dpmcmc_entries (
	number SERIAL NOT NULL,
	kind TEXT NOT NULL,
	dataset TEXT NOT NULL,
	run TEXT,
	event TEXT,
	epsilon DOUBLE PRECISION,
	delta DOUBLE PRECISION,
	adjacency TEXT NOT NULL,
	who TEXT NOT NULL,
	made_at TEXT NOT NULL,
	what TEXT NOT NULL,
	library_version TEXT NOT NULL,
	PRIMARY KEY (number),
	CONSTRAINT dpmcmc_known_kind CHECK (kind IN ('register', 'reserve', 'settle')),
	CONSTRAINT dpmcmc_fields_of_kind CHECK (CASE kind WHEN 'register' THEN run IS NULL AND event IS NULL AND epsilon IS NOT NULL AND delta IS NOT NULL ELSE run IS NOT NULL AND event IS NOT NULL AND epsilon IS NULL AND delta IS NULL END),
	CONSTRAINT dpmcmc_one_settlement UNIQUE (run, kind)
);
CREATE UNIQUE INDEX dpmcmc_one_registration ON dpmcmc_entries (dataset) WHERE kind = 'register';
CREATE INDEX ix_dpmcmc_entries_dataset ON dpmcmc_entries (dataset);
CREATE TRIGGER dpmcmc_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dpmcmc_entries FOR EACH STATEMENT EXECUTE FUNCTION dpmcmc_append_only();
INSERT INTO dpmcmc_versions (version, made_at) VALUES (1, '2026-11-16T10:05:03+00:00');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('register', 'patients', NULL, NULL, 2.0, 1e-06, 'replace_one', 'ana', '2026-11-16T10:05:03+00:00', 'budget granted', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('register', 'Patients', NULL, NULL, 1.0, 1e-06, 'replace_one', 'bo', '2026-11-16T10:05:03+00:00', 'budget granted', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('register', 'visits', NULL, NULL, 1.5, 1e-07, 'add_or_remove_one', 'ana', '2026-11-16T10:05:03+00:00', 'budget granted', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('register', 'été 東京', NULL, NULL, 0.5, 1e-06, 'replace_one', 'ana', '2026-11-16T10:05:03+00:00', 'budget granted', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('reserve', 'patients', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '{"kind": "Composed", "parts": [{"count": 50, "event": {"kind": "Gaussian", "noise_multiplier": 20.0}}]}', NULL, NULL, 'replace_one', 'ana', '2026-11-16T10:05:03+00:00', 'a pilot', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('settle', 'patients', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '{"kind": "Composed", "parts": [{"count": 50, "event": {"kind": "Gaussian", "noise_multiplier": 20.0}}]}', NULL, NULL, 'replace_one', 'ana', '2026-11-16T10:05:03+00:00', 'a pilot', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('reserve', 'patients', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"kind": "Composed", "parts": [{"count": 5, "event": {"kind": "AcceptBit", "noise_multiplier": 40.0}}, {"count": 1, "event": {"kind": "Approximation", "total_variation": 1e-12}}, {"count": 5, "event": {"kind": "Gaussian", "noise_multiplier": 20.0}}]}', NULL, NULL, 'replace_one', 'bo', '2026-11-16T10:05:03+00:00', 'a chain', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('settle', 'patients', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '{"kind": "Composed", "parts": [{"count": 1, "event": {"kind": "AcceptBit", "noise_multiplier": 40.0}}, {"count": 2, "event": {"kind": "Gaussian", "noise_multiplier": 20.0}}]}', NULL, NULL, 'replace_one', 'bo', '2026-11-16T10:05:03+00:00', 'a chain', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('reserve', 'patients', 'cccccccccccccccccccccccccccccccc', '{"kind": "Composed", "parts": [{"count": 20, "event": {"batch_size": 10, "kind": "FixedBatchGaussian", "noise_multiplier": 4.0, "population": 1000}}]}', NULL, NULL, 'replace_one', 'bo', '2026-11-16T10:05:03+00:00', 'standing', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('reserve', 'Patients', 'dddddddddddddddddddddddddddddddd', '{"kind": "Composed", "parts": [{"count": 10, "event": {"kind": "LogisticBit", "sensitivity": 0.05}}]}', NULL, NULL, 'replace_one', 'bo', '2026-11-16T10:05:03+00:00', 'coins', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('settle', 'Patients', 'dddddddddddddddddddddddddddddddd', '{"kind": "Composed", "parts": []}', NULL, NULL, 'replace_one', 'bo', '2026-11-16T10:05:03+00:00', 'coins', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('reserve', 'visits', 'eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee', '{"kind": "Composed", "parts": [{"count": 10, "event": {"adjacency": "add_or_remove_one", "kind": "PoissonGaussian", "noise_over_clip": 20.0, "rate": 0.01}}, {"count": 1, "event": {"kind": "RatioApproximation", "log_ratio": 1e-09}}]}', NULL, NULL, 'add_or_remove_one', 'ana', '2026-11-16T10:05:03+00:00', 'batches', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('settle', 'visits', 'eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee', '{"kind": "Composed", "parts": [{"count": 10, "event": {"adjacency": "add_or_remove_one", "kind": "PoissonGaussian", "noise_over_clip": 20.0, "rate": 0.01}}, {"count": 1, "event": {"kind": "RatioApproximation", "log_ratio": 1e-09}}]}', NULL, NULL, 'add_or_remove_one', 'ana', '2026-11-16T10:05:03+00:00', 'batches', '0.1.0');
INSERT INTO dpmcmc_entries (kind, dataset, run, event, epsilon, delta, adjacency, who, made_at, what, library_version) VALUES ('reserve', 'visits', 'ffffffffffffffffffffffffffffffff', '{"kind": "Composed", "parts": [{"count": 5, "event": {"kind": "Gaussian", "noise_multiplier": 60.0}}]}', NULL, NULL, 'add_or_remove_one', 'ana', '2026-11-16T10:05:03+00:00', 'standing too', '0.1.0');
