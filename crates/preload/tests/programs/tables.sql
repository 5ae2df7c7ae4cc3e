-- Fills a table in memory, with an index; reads it in order, and joins it with itself.
CREATE TABLE nodes (key INTEGER PRIMARY KEY, other INTEGER, text TEXT);
WITH RECURSIVE n(at) AS (SELECT 0 UNION ALL SELECT at + 1 FROM n WHERE at + 1 < 300000)
    INSERT INTO nodes SELECT at, at * 7919 % 300000, 'this is the text of node ' || at FROM n;
CREATE INDEX by_text ON nodes (text);
SELECT count(*), sum(length(text)), max(text) FROM nodes;
SELECT sum(a.key * b.other % 1000) FROM nodes a JOIN nodes b ON b.key = (a.key + 1) % 300000;
SELECT text FROM nodes ORDER BY other DESC LIMIT 3;
